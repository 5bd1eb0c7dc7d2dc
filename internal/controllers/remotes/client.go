package remotes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/kanzen-io/kanzen/internal/wire/apiclient"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 20

// Client sends requests in JSON to extension servers, through the chain.
type Client struct{ rt http.RoundTripper }

// NewClient creates a client that sends requests by rt.
func NewClient(rt http.RoundTripper) *Client { return &Client{rt} }

// Media types of bodies, and what is accepted where only metadata is read.
const (
	mediaJSON   = "application/json"
	mediaPatch  = "application/merge-patch+json"
	acceptOne   = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	acceptMany  = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	fakeAddress = "https://in-process" // the transport only takes the path
)

// Do sends a request and decodes the answer into out, which may be nil. An answer other than success is returned as
// a *apierrors.StatusError.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	return c.do(ctx, method, path, mediaJSON, mediaJSON, in, out)
}

func (c *Client) do(ctx context.Context, method, path, accept, contentType string, in, out any) error {
	var body io.Reader = http.NoBody
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, fakeAddress+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", accept)
	if in != nil {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.rt.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return err
	}
	if len(b) > maxAnswer {
		return fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return apiclient.Refusal(resp.StatusCode, b)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}
