package planes

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	neturl "net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/wire/apiclient"
)

// Client asks a root for its planes, as a program outside of it.
type Client struct{ api }

// NewClient returns a client of the root at a URL. Its errors are those of an http.Client.
func NewClient(root http.RoundTripper, url string) *Client {
	return &Client{api{apiclient.Client{RoundTripper: naming{root}, URL: url, Agent: agent}}}
}

// naming says in errors where a request went.
type naming struct{ http.RoundTripper }

// RoundTrip is part of http.RoundTripper.
func (n naming) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := n.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, &neturl.Error{Op: r.Method[:1] + strings.ToLower(r.Method[1:]), URL: r.URL.String(), Err: err}
	}
	return resp, nil
}

// Kubeconfig returns the kubeconfig of a plane's administrator; nil: the plane is not ready, for the reason that is returned. That
// there is no such plane is an error.
func (c *Client) Kubeconfig(ctx context.Context, name string) (data []byte, reason string, err error) {
	var p Plane
	if err := c.Do(ctx, http.MethodGet, planesPath+"/"+neturl.PathEscape(name), "", nil, &p); err != nil {
		return nil, "", err
	}
	if is := meta.FindStatusCondition(p.Status.Conditions, ready); !made(&p) {
		if is != nil {
			reason = is.Message
		}
		return nil, reason, nil
	}
	var s corev1.Secret
	err = c.Do(ctx, http.MethodGet, secretsPath+"/"+p.Status.Kubeconfig, "", nil, &s)
	return s.Data[KubeconfigKey], "", err
}

// Move names the server that is to have a plane. It has moved once Server returns that one.
func (c *Client) Move(ctx context.Context, name, server string) error {
	return c.Do(ctx, http.MethodPatch, planesPath+"/"+neturl.PathEscape(name), apiclient.MergePatch, map[string]any{"spec": map[string]any{"server": server}}, nil)
}

// Server returns the server that has a plane, and whether the plane is awake. One that is awake has none only if there is a single server.
func (c *Client) Server(ctx context.Context, name string) (server string, isAwake bool, err error) {
	var p Plane
	err = c.Do(ctx, http.MethodGet, planesPath+"/"+neturl.PathEscape(name), "", nil, &p)
	return p.Status.server(), p.Status.State == awake, err
}

// Relocate names the storage class that a plane is to lie in; "": the log of the root.
func (c *Client) Relocate(ctx context.Context, name, class string) error {
	var to any
	if class != "" {
		to = class
	}
	return c.Do(ctx, http.MethodPatch, planesPath+"/"+neturl.PathEscape(name), apiclient.MergePatch, map[string]any{"spec": map[string]any{"storageClass": to}}, nil)
}

// Lies reports whether a plane lies in the storage class that it was last to, and what its status says of that.
func (c *Client) Lies(ctx context.Context, name string) (there bool, failure string, err error) {
	var p Plane
	if err := c.Do(ctx, http.MethodGet, planesPath+"/"+neturl.PathEscape(name), "", nil, &p); err != nil {
		return false, "", err
	}
	is := meta.FindStatusCondition(p.Status.Conditions, stored)
	switch {
	case p.Status.storageClass() != p.Spec.StorageClass:
	case is == nil && p.Spec.StorageClass == "": // it was never elsewhere
		return true, "", nil
	case is != nil && is.Status == metav1.ConditionTrue:
		return true, "", nil
	}
	if is != nil && is.Status == metav1.ConditionFalse && is.ObservedGeneration == p.Generation && is.Reason != underWay {
		failure = is.Message
	}
	return false, failure, nil
}

// Wanted returns the servers that planes name as those that are to have them, by the names of the planes.
func (c *Client) Wanted(ctx context.Context) (map[string]string, error) {
	var list struct{ Items []Plane }
	if err := c.Do(ctx, http.MethodGet, planesPath, "", nil, &list); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for n := range list.Items {
		if p := &list.Items[n]; p.Spec.Server != "" {
			out[p.Name] = p.Spec.Server
		}
	}
	return out, nil
}

// Export asks for the objects of a plane, as a stream.
func (c *Client) Export(ctx context.Context, name string) (io.ReadCloser, error) {
	resp, err := c.send(ctx, name, exportOf, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Keys returns the signing keys and authorities of a plane, which are in a secret of the root.
func (c *Client) Keys(ctx context.Context, name string) (map[string][]byte, error) {
	var s corev1.Secret
	if err := c.Do(ctx, http.MethodGet, secretsPath+"/"+neturl.PathEscape(keysSecret(name)), "", nil, &s); err != nil {
		return nil, err
	}
	return s.Data, nil
}

// Import makes a plane of a stream, which write writes. The Plane is created if there is none.
func (c *Client) Import(ctx context.Context, name string, write func(io.Writer) error) (*Imported, error) {
	p := map[string]any{"apiVersion": Group + "/" + Version, "kind": "Plane", "metadata": map[string]any{"name": name}, "spec": map[string]any{"imported": true}}
	var have Plane
	err := c.Do(ctx, http.MethodGet, planesPath+"/"+neturl.PathEscape(name), "", nil, &have)
	if apierrors.IsNotFound(err) {
		err = c.create(ctx, planesPath, p)
	}
	if err != nil {
		return nil, err
	}
	from, to := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(to)
		_ = to.CloseWithError(err) // it returns nil
		written <- err
	}()
	resp, err := c.send(ctx, name, importOf, from)
	_ = from.CloseWithError(errAnswered) // as well
	// What could not be written says more than that the request broke off.
	if failed := <-written; failed != nil && !errors.Is(failed, errAnswered) && !errors.Is(failed, io.ErrClosedPipe) {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := &Imported{}
	return out, json.NewDecoder(resp.Body).Decode(out)
}

// errAnswered ends the writing of a stream that the server has answered.
var errAnswered = errors.New("the server has answered")

// maxRefusal bounds how much of a refusal is read.
const maxRefusal = 64 << 10

// send makes a request for a subresource of a plane. A refusal is an *apierrors.StatusError.
func (c *Client) send(ctx context.Context, name, subresource string, body io.Reader) (*http.Response, error) {
	resp, err := c.Send(ctx, http.MethodPost, planesPath+"/"+neturl.PathEscape(name)+"/"+subresource, "application/octet-stream", body)
	if err != nil || resp.StatusCode < http.StatusBadRequest {
		return resp, err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // what there is of it is told
	return nil, apiclient.Refusal(resp.StatusCode, text)
}
