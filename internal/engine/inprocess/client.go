package inprocess

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Client makes the requests of one user. Refusals are *apierrors.StatusError. It is safe for concurrent use.
type Client struct {
	door  *Door
	user  user.Info
	agent string
	// manager is the field manager; "": the one that follows from the agent.
	manager string
}

// Managing returns the client with another field manager.
func (c *Client) Managing(manager string) *Client {
	other := *c
	other.manager = manager
	return &other
}

// Transport returns a transport for any HTTP request of the client's user, such as requests to extension servers, which
// cannot be made with Go objects.
func (c *Client) Transport() http.RoundTripper { return &agent{c.door.Transport(c.user), c.agent} }

// agent sets the User-Agent of requests.
type agent struct {
	http.RoundTripper
	name string
}

// RoundTrip is part of http.RoundTripper.
func (a *agent) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", a.name)
	return a.RoundTripper.RoundTrip(req)
}

// Target is the target of a request: an object, a subresource of it, or, without a name, all objects in a namespace or
// of a resource. Writes to an object that exists get its name from a request.Which.
type Target struct {
	Resource                     schema.GroupVersionResource
	Namespace, Name, Subresource string
}

// Path returns the target's path.
func (t Target) Path() string {
	path := "/apis/" + t.Resource.Group + "/" + t.Resource.Version
	if t.Resource.Group == "" {
		path = "/api/" + t.Resource.Version
	}
	if t.Namespace != "" {
		path += "/namespaces/" + t.Namespace
	}
	path += "/" + t.Resource.Resource
	for _, part := range []string{t.Name, t.Subresource} {
		if part != "" {
			path += "/" + part
		}
	}
	return path
}

// object is an API object with metadata.
type object interface {
	runtime.Object
	metav1.Object
}

// Create creates an object and returns the stored object. If the target is a subresource, it posts the object to that.
func (c *Client) Create(ctx context.Context, t Target, obj runtime.Object) (runtime.Object, error) {
	l := &request.Local{Object: obj}
	err := c.do(ctx, http.MethodPost, t, nil, "", l)
	return l.Answer, err
}

// Update replaces an object, or its subresource, and returns the stored object.
func (c *Client) Update(ctx context.Context, t Target, w request.Which, obj runtime.Object) (runtime.Object, error) {
	l := &request.Local{Object: obj}
	err := c.change(ctx, http.MethodPut, t, w, nil, "", l)
	return l.Answer, err
}

// Edit changes the stored object, or the part that its subresource may change, by a func. The func is called again
// after a conflict with another writer; its error ends the request and is returned as it is. It gets the object in the
// storage version.
//
// If w is no longer stored, the error is a Conflict or, if nothing has its name, NotFound: the caller has to look again.
func Edit[T object](ctx context.Context, c *Client, t Target, w request.Which, edit func(obj T) error) (T, error) {
	var failed error
	l := &request.Local{Edit: func(obj runtime.Object) error {
		typed, ok := obj.(T)
		if failed = edit(typed); !ok {
			failed = apierrors.NewInternalError(errors.New(t.of(w).Path() + " is of another type"))
		}
		return failed
	}}
	err := c.change(ctx, http.MethodPut, t, w, nil, "", l)
	if failed != nil {
		err = failed
	}
	stored, _ := l.Answer.(T)
	return stored, err
}

// Apply applies a configuration by server-side apply. It forces conflicts: it takes over fields from other managers. Of
// its errors the same is true as of Edit's.
func (c *Client) Apply(ctx context.Context, t Target, w request.Which, configuration any) error {
	return c.patch(ctx, t, w, types.ApplyYAMLPatchType, configuration, url.Values{"force": {"true"}})
}

// Merge changes an object by a JSON merge patch. Of its errors the same is true as of Edit's.
func (c *Client) Merge(ctx context.Context, t Target, w request.Which, patch any) error {
	return c.patch(ctx, t, w, types.MergePatchType, patch, nil)
}

func (c *Client) patch(ctx context.Context, t Target, w request.Which, kind types.PatchType, document any, query url.Values) error {
	b, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return c.change(ctx, http.MethodPatch, t, w, query, string(kind), &request.Local{Body: bytes.NewReader(b)})
}

// change sends a write to an object that exists.
func (c *Client) change(ctx context.Context, method string, t Target, w request.Which, query url.Values, contentType string, l *request.Local) error {
	if err := w.Err(); err != nil {
		return fmt.Errorf("%s %s: %w", method, t.Path(), err)
	}
	l.Which = w
	return c.do(ctx, method, t.of(w), query, contentType, l)
}

// of returns the target for an object.
func (t Target) of(w request.Which) Target {
	t.Namespace, t.Name = w.Namespace(), w.Name()
	return t
}

// Delete deletes an object.
func (c *Client) Delete(ctx context.Context, t Target, w request.Which, options *metav1.DeleteOptions) error {
	return c.change(ctx, http.MethodDelete, t, w, nil, "", &request.Local{Object: w.Delete(options)})
}

// DeleteAll deletes the objects that the target had at a revision, if they still exist.
func (c *Client) DeleteAll(ctx context.Context, t Target, revision int64, options *metav1.DeleteOptions) error {
	at := url.Values{"resourceVersion": {strconv.FormatInt(revision, 10)}, "resourceVersionMatch": {string(metav1.ResourceVersionMatchExact)}}
	return c.do(ctx, http.MethodDelete, t, at, "", &request.Local{Object: options})
}

func (c *Client) do(ctx context.Context, method string, t Target, query url.Values, contentType string, body *request.Local) error {
	handler := c.door.handler.Load()
	if handler == nil {
		return errClosed
	}
	inner, cancel := c.door.context(ctx)
	defer cancel()
	req := c.request(inner, method, t, query, contentType, body)
	w := &recorder{header: http.Header{}}
	began := time.Now()
	if err := serve(*handler, w, req); err != nil {
		return err
	}
	if c.door.Measure != nil {
		c.door.Measure(method, cmp.Or(w.code, http.StatusOK), time.Since(began))
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case body.Err != nil:
		return body.Err
	case w.code >= http.StatusMultipleChoices:
		return w.refusal()
	}
	return nil
}

// context returns a context for a request, which ends when the caller's or the server's ends. It has none of the
// caller's values, because the caller may be part of another request.
func (d *Door) context(caller context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(d.server)
	uncut := context.AfterFunc(caller, cancel)
	return ctx, func() { uncut(); cancel() }
}

func (c *Client) request(ctx context.Context, method string, t Target, query url.Values, contentType string, body *request.Local) *http.Request {
	if c.user != nil {
		ctx = WithUser(ctx, c.user)
	}
	if c.manager != "" {
		if query == nil {
			query = url.Values{}
		}
		query.Set("fieldManager", c.manager)
	}
	u := &url.URL{Path: t.Path(), RawQuery: query.Encode()}
	req := (&http.Request{
		Method: method, URL: u, RequestURI: u.RequestURI(), Host: "in-process", RemoteAddr: "127.0.0.1:0",
		Proto: "HTTP/2.0", ProtoMajor: 2, Body: body, ContentLength: -1,
		Header: http.Header{"User-Agent": {c.agent}, "Accept": {"application/json"}},
	}).WithContext(ctx)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return req
}

var (
	errClosed   = errors.New("the server is not up yet")
	errCut      = apierrors.NewServiceUnavailable("the request was cut off")
	errPanicked = errors.New("the handler panicked")
)

// serve calls a handler and recovers its panics.
func serve(h http.Handler, w http.ResponseWriter, req *http.Request) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			err = errCut
		default:
			err = errPanicked
		}
	}()
	h.ServeHTTP(w, req)
	return nil
}

// recorder records an answer that is not a Go object: a refusal by the chain.
type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header is part of http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader is part of http.ResponseWriter.
func (r *recorder) WriteHeader(code int) {
	if r.code == 0 && code >= http.StatusOK {
		r.code = code
	}
}

// maxRefusal bounds the recorded bytes of an answer.
const maxRefusal = 64 << 10

// Write is part of http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if room := maxRefusal - r.body.Len(); room > 0 {
		r.body.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}

// refusal returns the answer as an error.
func (r *recorder) refusal() error {
	st := metav1.Status{}
	if json.Unmarshal(r.body.Bytes(), &st) != nil || st.Status == "" {
		b, _ := io.ReadAll(&r.body)
		st = metav1.Status{Status: metav1.StatusFailure, Code: int32(r.code), Message: string(b)}
	}
	return &apierrors.StatusError{ErrStatus: st}
}
