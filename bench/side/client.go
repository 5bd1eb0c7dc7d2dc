package side

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Client is one connection's worth of HTTP/2 of one user, as plain as Go has
// it. It asks for no compression unless a request does.
type Client struct {
	http       http.Client
	url, token string
}

// NewClient is a client of the server at a URL.
func NewClient(url, token string) *Client {
	return &Client{url: url, token: token, http: http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2:  true,
		DisableCompression: true,
		// What the client believes is not measured, so it believes everything.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}}
}

// Close closes the connection.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Request is all that distinguishes one request from another.
type Request struct {
	Method, Path string
	Accept       string // application/json if empty
	Encoding     string // Accept-Encoding
	ContentType  string
	Body         string
}

// StatusError is an answer that is no success.
type StatusError struct {
	Code       int
	RetryAfter time.Duration // zero if the answer does not say
	text       string
}

func (e *StatusError) Error() string { return e.text }

// Code is the status that an error of Open or Do tells of, and zero if there
// was no answer.
func Code(err error) int {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e.Code
	}
	return 0
}

// Open sends a request and returns the answer, if it is a success; another one
// is a StatusError.
func (c *Client) Open(ctx context.Context, r Request) (*http.Response, error) {
	var body io.Reader
	if r.Body != "" {
		body = strings.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, c.url+r.Path, body)
	if err != nil {
		return nil, err
	}
	req.Header = http.Header{"Authorization": {"Bearer " + c.token}, "User-Agent": {"bench"}, "Accept": {"application/json"}}
	for name, value := range map[string]string{"Accept": r.Accept, "Accept-Encoding": r.Encoding, "Content-Type": r.ContentType} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 300 {
		defer res.Body.Close()
		b, _ := io.ReadAll(io.LimitReader(res.Body, 500))         // the status says enough without it
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After")) // API servers send no dates
		return nil, &StatusError{res.StatusCode, time.Duration(seconds) * time.Second, fmt.Sprintf("%s %s: %s: %s", r.Method, r.Path, res.Status, b)}
	}
	return res, nil
}

// Do sends a request and copies the whole answer to w. It fails as Open does.
func (c *Client) Do(ctx context.Context, r Request, w io.Writer) error {
	res, err := c.Open(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(w, res.Body)
	return err
}

// Create creates an object. For a minute it tries again what is forbidden or
// not found: kube-apiserver is ready before its namespaces and roles are there.
func (c *Client) Create(ctx context.Context, path, body string) error {
	until := time.Now().Add(time.Minute)
	for {
		err := c.Do(ctx, Request{Method: http.MethodPost, Path: path, ContentType: "application/json", Body: body}, io.Discard)
		if !slices.Contains([]int{http.StatusForbidden, http.StatusNotFound}, Code(err)) || time.Now().After(until) {
			return err
		}
		if err := Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}
