package controllers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 20

// remoteClient sends requests in JSON to extension servers.
type remoteClient struct{ rt http.RoundTripper }

// do sends a request and decodes the answer into out, which may be nil. An
// answer other than success is returned as a *apierrors.StatusError.
func (c *remoteClient) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader = http.NoBody
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://in-process"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
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
		st := metav1.Status{}
		if json.Unmarshal(b, &st) != nil || st.Status == "" {
			st = metav1.Status{Status: metav1.StatusFailure, Code: int32(resp.StatusCode), Message: string(b)}
		}
		return &apierrors.StatusError{ErrStatus: st}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}
