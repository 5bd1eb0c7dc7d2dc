package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	kjson "sigs.k8s.io/json"
)

// Server is a running API server.
type Server struct {
	client *http.Client
	url    *url.URL
}

// NewServer returns the server that a client configuration names.
func NewServer(c *rest.Config) (*Server, error) {
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerURL(c.Host, "", schema.GroupVersion{}, true)
	if err != nil {
		return nil, err
	}
	return &Server{client: client, url: base}, nil
}

// do sends a request. An answer beyond 299 is an error, of the server's Status if it sent one.
func (s *Server) do(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	at := s.url.JoinPath(path)
	at.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, at.String(), content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode > 299 {
		return nil, refused(resp, method, path)
	}
	return resp, nil
}

// maxRefusal bounds how much of a refusal is read.
const maxRefusal = 64 << 10

// reasons are those of answers that have no Status.
var reasons = map[int]metav1.StatusReason{http.StatusNotFound: metav1.StatusReasonNotFound}

func refused(resp *http.Response, method, path string) error {
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // what there is of it is told
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Kind == "Status" && status.Code != 0 {
		return &apierrors.StatusError{ErrStatus: status}
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(resp.StatusCode), Reason: reasons[resp.StatusCode],
		Message: fmt.Sprintf("%s %s: %s: %s", method, path, resp.Status, strings.TrimSpace(string(text))),
	}}
}

// Snapshot streams a snapshot of the server's own database: of now, or of an earlier moment if at names one.
func (s *Server) Snapshot(ctx context.Context, at string) (io.ReadCloser, error) {
	query := url.Values{}
	if at != "" {
		query.Set("at", at)
	}
	resp, err := s.do(ctx, http.MethodPost, Path, query, nil)
	if apierrors.IsNotFound(err) {
		return nil, errors.New("this server has no etcd inside, or is no kanzen: name its etcd cluster by --etcd-servers")
	}
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// pathOf is the path of a resource, and in it of an object if name is not empty.
func pathOf(r schema.GroupVersionResource, namespace, name string) string {
	path := "/apis/" + r.Group + "/" + r.Version
	if r.Group == "" {
		path = "/api/" + r.Version
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	path += "/" + r.Resource
	if name != "" {
		path += "/" + name
	}
	return path
}

// object sends a request whose answer is an object.
func (s *Server) object(ctx context.Context, method, path string, query url.Values, body any) (*unstructured.Unstructured, error) {
	resp, err := s.do(ctx, method, path, query, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	return out, kjson.UnmarshalCaseSensitivePreserveInts(text, &out.Object)
}

func (s *Server) get(ctx context.Context, r schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	return s.object(ctx, http.MethodGet, pathOf(r, namespace, name), nil, nil)
}

func dryRun(on bool) url.Values {
	q := url.Values{"fieldManager": {"kanzen-snapshot"}}
	if on {
		q.Set("dryRun", metav1.DryRunAll)
	}
	return q
}

func (s *Server) create(ctx context.Context, r schema.GroupVersionResource, obj *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
	return s.object(ctx, http.MethodPost, pathOf(r, obj.GetNamespace(), ""), dryRun(dry), obj.Object)
}

func (s *Server) update(ctx context.Context, r schema.GroupVersionResource, obj *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
	return s.object(ctx, http.MethodPut, pathOf(r, obj.GetNamespace(), obj.GetName()), dryRun(dry), obj.Object)
}

// list calls f with each object of a resource, of one namespace or of all.
func (s *Server) list(ctx context.Context, r schema.GroupVersionResource, namespace string, f func(*unstructured.Unstructured) error) error {
	q := url.Values{"limit": {"500"}}
	for {
		resp, err := s.do(ctx, http.MethodGet, pathOf(r, namespace, ""), q, nil)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return err
		}
		page := map[string]any{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &page); err != nil {
			return err
		}
		list := unstructured.Unstructured{Object: page}
		kind := strings.TrimSuffix(list.GetKind(), "List")
		items, _ := page["items"].([]any)
		for _, item := range items {
			content, ok := item.(map[string]any)
			if !ok {
				return fmt.Errorf("list %s: an item is no object", r.Resource)
			}
			u := &unstructured.Unstructured{Object: content}
			if u.GetKind() == "" { // items of built-in kinds do not tell theirs
				u.SetAPIVersion(list.GetAPIVersion())
				u.SetKind(kind)
			}
			if err := f(u); err != nil {
				return err
			}
		}
		next, _, _ := unstructured.NestedString(page, "metadata", "continue")
		if next == "" {
			return nil
		}
		if next == q.Get("continue") {
			return fmt.Errorf("list %s: the server goes on from the place where it was", r.Resource)
		}
		q.Set("continue", next)
	}
}

// resourceOf asks the server which resource has a kind. It returns a NotFound if none has.
func (s *Server) resourceOf(ctx context.Context, kind schema.GroupVersionKind) (_ schema.GroupVersionResource, namespaced bool, _ error) {
	path := "/apis/" + kind.Group + "/" + kind.Version
	if kind.Group == "" {
		path = "/api/" + kind.Version
	}
	found, err := s.object(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return schema.GroupVersionResource{}, false, err
	}
	resources, _ := found.Object["resources"].([]any)
	for _, r := range resources {
		r, _ := r.(map[string]any)
		name, _ := r["name"].(string)
		if r["kind"] == kind.Kind && !strings.Contains(name, "/") {
			return kind.GroupVersion().WithResource(name), r["namespaced"] == true, nil
		}
	}
	return schema.GroupVersionResource{}, false, apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, "")
}
