package remote

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Exchange sends a request and returns the body of a 2xx response, up to a limit in bytes. Any other response,
// including a redirect, is an error of apimachinery: a webhook's owner must not be able to redirect this server
// elsewhere, or learn, or let a client learn, what that other server answers. The returned response, nil if there was
// none, is for its header: its body has been read.
func Exchange(c *http.Client, req *http.Request, limit int) (*http.Response, []byte, error) {
	here := *c
	here.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := here.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to the end, or abandoned
	if resp.StatusCode < http.StatusOK || resp.StatusCode > http.StatusPartialContent {
		return resp, nil, refused(resp)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	switch {
	case err != nil:
		return resp, nil, fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w", err)
	case len(answer) > limit:
		return resp, nil, fmt.Errorf("the answer of %s is longer than %d bytes", req.URL.Host, limit)
	}
	return resp, answer, nil
}

// maxText bounds the text kept of an error response, in bytes.
const maxText = 2048

// refusal is the error of an unsuccessful response. Its message depends only on the status code, because clients see
// it; the response text is for the log.
type refusal struct {
	*apierrors.StatusError
	said string
}

// Unwrap returns the API error of the status code.
func (r *refusal) Unwrap() error { return r.StatusError }

func refused(resp *http.Response) error {
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxText)) // as much as can be read
	retryAfter, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return &refusal{apierrors.NewGenericServerResponse(resp.StatusCode, http.MethodPost, schema.GroupResource{}, "", "unknown", retryAfter, true), string(said)}
}

// Said returns the truncated text of an unsuccessful response: for a log, not for clients.
func Said(err error) string {
	var r *refusal
	if errors.As(err, &r) {
		return r.said
	}
	return ""
}
