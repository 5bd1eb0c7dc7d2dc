// Package remote asks another server for its opinion: a webhook that a
// kubeconfig file names, which reviews a token or a request. It sends one
// object and reads one back, with patience for a server that is restarting.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 3 << 20

// defaultTimeout is that of one attempt; a kubeconfig cannot say one.
const defaultTimeout = 30 * time.Second

// Client sends reviews to one server.
type Client struct {
	url  string
	http *http.Client
}

// FromKubeconfig reads where the server is and how to authenticate to it:
// cluster and user of the file's current context. A timeout of zero is 30
// seconds.
func FromKubeconfig(path string, timeout time.Duration) (*Client, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	if timeout == 0 {
		timeout = defaultTimeout
	}
	c.Timeout = timeout
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(c.Host)
	if err != nil {
		return nil, fmt.Errorf("%s: server: %w", path, err)
	}
	if u.Scheme == "" || u.Host == "" {
		if u, _, err = rest.DefaultServerURL(c.Host, "", schema.GroupVersion{}, true); err != nil {
			return nil, fmt.Errorf("%s: server: %w", path, err)
		}
	}
	u.Path = "/" + strings.Trim(u.Path, "/")
	q := u.Query()
	q.Set("timeout", timeout.String())
	u.RawQuery = q.Encode()
	return &Client{url: u.String(), http: h}, nil
}

// Post sends in and reads the answer into out. It returns the status code of
// the answer, 0 where there was none. What is no success is an error of
// apimachinery.
func (c *Client) Post(ctx context.Context, in, out any) (int, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, */*")
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return resp.StatusCode, err
	case len(answer) > maxAnswer:
		return resp.StatusCode, fmt.Errorf("the answer of %s is longer than %d bytes", c.host(), maxAnswer)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return resp.StatusCode, c.refusal(resp, answer)
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return resp.StatusCode, fmt.Errorf("the answer of %s cannot be read: %w", c.host(), err)
	}
	return resp.StatusCode, nil
}

func (c *Client) host() string {
	u, err := url.Parse(c.url)
	if err != nil {
		return "the webhook"
	}
	return u.Host
}

// refusal is the Status of an answer, or one made of its code.
func (c *Client) refusal(resp *http.Response, answer []byte) error {
	retryAfter := 0
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		retryAfter = s
	}
	if t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil && t == "application/json" {
		var st metav1.Status
		if json.Unmarshal(answer, &st) == nil && st.Kind == "Status" && st.Status != metav1.StatusSuccess {
			return &apierrors.StatusError{ErrStatus: st}
		}
	}
	const shown = 1024
	text := strings.TrimSpace(string(answer[:min(len(answer), shown)]))
	if text == "" {
		text = "unknown"
	}
	return apierrors.NewGenericServerResponse(resp.StatusCode, http.MethodPost, schema.GroupResource{}, "", text, retryAfter, true)
}

// IsTimeout says that an error is that of a server which took too long.
func IsTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err) || errors.As(err, &t) && t.Timeout()
}
