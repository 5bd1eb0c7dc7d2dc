package controllers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// maxAnswer bounds what is read of an answer, in bytes: it may come from an extension server.
const maxAnswer = 64 << 20

// client sends requests to the server it is part of.
type client struct {
	rt    http.RoundTripper
	agent string
}

// do sends a request and decodes the answer, which may be nil to be ignored.
// What is no success comes back as a *apierrors.StatusError.
func (c *client) do(ctx context.Context, method, path string, in, out any) error {
	return c.send(ctx, method, path, "application/json", in, out)
}

// apply sends an object by server-side apply, taking its fields from whoever
// manages them.
func (c *client) apply(ctx context.Context, path, manager string, in any) error {
	query := url.Values{"fieldManager": {manager}, "force": {"true"}}
	return c.send(ctx, http.MethodPatch, path+"?"+query.Encode(), string(types.ApplyYAMLPatchType), in, nil)
}

func (c *client) send(ctx context.Context, method, path, contentType string, in, out any) error {
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
	req.Header.Set("User-Agent", c.agent)
	if in != nil {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.rt.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
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

// collection is the path of a resource's objects in a namespace.
func collection(gvr schema.GroupVersionResource, namespace string) string {
	root := "/apis/" + gvr.Group + "/" + gvr.Version
	if gvr.Group == "" {
		root = "/api/" + gvr.Version
	}
	if namespace == "" {
		return root + "/" + gvr.Resource
	}
	return fmt.Sprintf("%s/namespaces/%s/%s", root, namespace, gvr.Resource)
}
