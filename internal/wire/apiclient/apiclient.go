// Package apiclient makes single requests of an API server in JSON, for code that has a transport and a path and no client of
// client-go's (which the binary does without). It is a folder of its own because whoever makes such requests stands in districts
// that do not know each other.
package apiclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The content types of bodies.
const (
	JSON       = "application/json"
	ApplyPatch = "application/apply-patch+yaml"
	MergePatch = "application/merge-patch+json"
)

// Client makes requests of one API server.
type Client struct {
	http.RoundTripper
	URL   string // before paths; "": the transport knows where to
	Agent string // User-Agent, and so the field manager of what it writes
}

// Do makes a request and decodes the answer into out, if that is not nil. A refusal is an *apierrors.StatusError.
func (c Client) Do(ctx context.Context, method, path, contentType string, body, out any) error {
	resp, err := c.Send(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return Refusal(resp.StatusCode, data)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

// Send makes a request, whatever the answer is. A body that is not nil, bytes or a reader becomes JSON.
func (c Client) Send(ctx context.Context, method, path, contentType string, body any) (*http.Response, error) {
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case io.Reader:
		content = b
	case []byte:
		content = bytes.NewReader(b)
	default:
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, cmp.Or(c.URL, "https://server")+path, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", c.Agent)
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	return c.RoundTrip(req)
}

// maxMessage bounds what of a body that is no Status becomes a message, in bytes.
const maxMessage = 1024

// Refusal is the error that an answer with a code of 400 and more is.
func Refusal(code int, body []byte) error {
	var status metav1.Status
	if json.Unmarshal(body, &status) != nil || status.Status == "" || status.Code == 0 {
		status = metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Message: string(body[:min(len(body), maxMessage)])}
	}
	return &apierrors.StatusError{ErrStatus: status}
}
