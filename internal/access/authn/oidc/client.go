package oidc

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// requestTimeout bounds a request to an issuer; maxAnswer bounds its response, in bytes.
const (
	requestTimeout = 30 * time.Second
	maxAnswer      = 1 << 20
)

var errLongAnswer = errors.New("the answer is too long")

// client sends requests to one issuer. It reads the issuer's metadata from another address if the configuration names
// one, and measures fetches of the keys.
type client struct {
	http       *http.Client
	base       *http.Transport
	issuer     string
	metadata   string
	insteadURL *url.URL
	keys       atomic.Pointer[string] // URL of the keys, once known
	lifecycle  context.Context
	metrics    *Metrics
}

func newClient(o *Options, roots *x509.CertPool) (*client, error) {
	i := &o.Config.Issuer
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if o.Dial != nil {
		transport.DialContext = o.Dial
	}
	c := &client{base: transport, issuer: i.URL, metrics: o.Metrics}
	if i.DiscoveryURL != "" {
		u, err := url.Parse(i.DiscoveryURL)
		if err != nil {
			return nil, fmt.Errorf("oidc: invalid discovery URL: %w", err)
		}
		c.insteadURL = u
		c.metadata = strings.TrimSuffix(i.URL, "/") + "/.well-known/openid-configuration"
	}
	c.http = &http.Client{Transport: c, Timeout: requestTimeout}
	return c, nil
}

// measure enables metrics for fetches from the URL keys until ctx ends.
func (c *client) measure(ctx context.Context, keys string) {
	c.lifecycle = ctx
	c.keys.Store(&keys)
}

// RoundTrip is part of http.RoundTripper.
func (c *client) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.insteadURL != nil && r.Method == http.MethodGet && r.URL.String() == c.metadata {
		r = r.Clone(r.Context())
		r.Host, r.URL = "", c.insteadURL
	}
	resp, err := c.base.RoundTrip(r)
	isKeys := c.keys.Load() != nil && r.URL.String() == *c.keys.Load() && c.lifecycle.Err() == nil
	if err != nil {
		if isKeys {
			c.metrics.fetched(c.issuer, nil)
		}
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	_ = resp.Body.Close() // read as far as needed
	if err == nil && len(body) > maxAnswer {
		err = errLongAnswer
	}
	if isKeys {
		var set jose.JSONWebKeySet
		if err == nil && resp.StatusCode == http.StatusOK && json.Unmarshal(body, &set) == nil {
			c.metrics.fetched(c.issuer, body)
		} else {
			c.metrics.fetched(c.issuer, nil)
		}
	}
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}
