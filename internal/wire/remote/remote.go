// Package remote calls a webhook that a kubeconfig file names and that reviews a token or a request. It sends one
// object and reads one back, and retries while the server restarts.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// maxAnswer bounds a response, in bytes.
const maxAnswer = 3 << 20

// defaultTimeout bounds one attempt; a kubeconfig cannot set it.
const defaultTimeout = 30 * time.Second

// Client sends reviews to one server.
type Client struct {
	url, host string
	http      *http.Client
}

// FromKubeconfig reads the server's address and credentials: the cluster and user of the file's current context. A
// timeout of zero means 30 seconds; dial, if not nil, opens connections.
func FromKubeconfig(path string, timeout time.Duration, dial utilnet.DialFunc) (*Client, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	c.Dial = dial
	return New(c, "", timeout)
}

// New creates a client for a path of a server. The config's own path comes before it. A timeout of zero means 30 seconds.
func New(c *rest.Config, path string, timeout time.Duration) (*Client, error) {
	c = rest.CopyConfig(c)
	if timeout == 0 {
		timeout = defaultTimeout
	}
	c.Timeout = timeout
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(c.Host)
	if err != nil || u.Scheme == "" || u.Host == "" {
		if u, _, err = rest.DefaultServerURL(c.Host, "", schema.GroupVersion{}, true); err != nil {
			return nil, fmt.Errorf("server %s: %w", c.Host, err)
		}
	}
	u.Path = "/" + strings.Trim(strings.TrimRight(u.Path, "/")+path, "/")
	q := u.Query()
	q.Set("timeout", timeout.String())
	u.RawQuery = q.Encode()
	return &Client{url: u.String(), host: u.Host, http: h}, nil
}

// Post sends in and decodes the response into out. It returns the status code of the response, 0 if there was none. An
// unsuccessful response is an error of apimachinery.
func (c *Client) Post(ctx context.Context, in, out any) (int, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	code, answer, err := c.Send(ctx, body)
	if err != nil {
		return code, err
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return code, fmt.Errorf("the answer of %s cannot be read: %w", c.host, err)
	}
	return code, nil
}

// Send sends JSON and returns the status code and body of the response, as Post does.
func (c *Client) Send(ctx context.Context, body []byte) (code int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, */*")
	resp, answer, err := Exchange(c.http, req, maxAnswer)
	if resp != nil {
		code = resp.StatusCode
	}
	return code, answer, err
}

// Close closes idle connections, and those that requests use now once they are done.
func (c *Client) Close() {
	utilnet.CloseIdleConnectionsFor(c.http.Transport) // the http.Client does not look into client-go's wrappers
}

// IsTimeout reports whether err means that the server took too long.
func IsTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err) || errors.As(err, &t) && t.Timeout()
}
