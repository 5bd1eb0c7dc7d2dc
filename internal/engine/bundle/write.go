package bundle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	v1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
)

// Write is a write that is carried out with others.
type Write struct {
	v1.Item
	// Field is what refusals call it; "": by its place among the items.
	Field string
	// Manager is its field manager; "": that of the bundle.
	Manager string
	// Owners are the managers that the object has afterwards, if the bundle names none of its own; nil: those that follow from the write.
	Owners []metav1.ManagedFieldsEntry
	// UID is what other writes call the object by, if it is created: they get the UID that it has then.
	UID types.UID
}

// writesOf are the items of a bundle.
func writesOf(spec *v1.BundleSpec) []Write {
	out := make([]Write, len(spec.Items))
	for n, i := range spec.Items {
		out[n].Item = i
	}
	return out
}

// write is a Write, read.
type write struct {
	*Write
	meta metav1.PartialObjectMetadata
	// namespace is that of the object if it needs one.
	namespace string
}

// read looks at what all items have in common.
func read(items []Write, namespace string) ([]write, error) {
	if len(items) == 0 || len(items) > maxItems {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("spec.items: a bundle has 1 to %d items, not %d", maxItems, len(items)))
	}
	out := make([]write, len(items))
	for n := range items {
		w := &out[n]
		w.Write = &items[n]
		bad := func(format string, args ...any) error {
			return apierrors.NewBadRequest(fmt.Sprintf("spec.items[%d]: ", n) + fmt.Sprintf(format, args...))
		}
		if err := json.Unmarshal(w.Object.Raw, &w.meta); err != nil {
			return nil, bad("the object cannot be read: %v", err)
		}
		w.namespace = cmp.Or(w.meta.Namespace, namespace, metav1.NamespaceDefault)
		switch w.Verb {
		case "":
			w.Verb = v1.Apply
		case v1.Apply, v1.Create, v1.Update, v1.Delete:
		default:
			return nil, bad("unknown verb %q: it is apply, create, update or delete", w.Verb)
		}
		switch kind := w.meta.GroupVersionKind(); {
		case kind.Kind == "" || kind.Version == "":
			return nil, bad("the object has no apiVersion or no kind")
		case kind.Group == v1.GroupName:
			return nil, bad("a bundle in a bundle")
		case w.meta.Name == "" && (w.Verb != v1.Create || w.meta.GenerateName == ""):
			return nil, bad("the object has no name")
		case w.Subresource != "" && w.Verb != v1.Apply && w.Verb != v1.Update:
			return nil, bad("a subresource is applied or updated, not %sd", w.Verb)
		}
	}
	return out, nil
}

// name is how an item is called in refusals.
func (w *write) name() string {
	name := w.meta.Name
	if name == "" {
		name = w.meta.GenerateName
	}
	if w.meta.Namespace != "" {
		name = w.meta.Namespace + "/" + name
	}
	return fmt.Sprintf("%s %s %s", w.meta.APIVersion, w.meta.Kind, name)
}

// id names an object.
type id struct{ group, resource, namespace, name string }

// carrying carries out writes on a fork.
type carrying struct {
	fork    Fork
	client  *http.Client
	options *metav1.CreateOptions
	// items are the objects of items, each with its resourceVersion in the last answer.
	items map[id]string
	// defined are the kinds of definitions that were written.
	defined map[schema.GroupKind]bool
	// uids are the UIDs of objects that were created, by what other writes call them.
	uids map[types.UID]types.UID
}

// all carries out all writes. The refusals of all are in the error.
func (c *carrying) all(ctx context.Context, writes []write) (*v1.BundleStatus, error) {
	status := &v1.BundleStatus{Items: make([]v1.ItemStatus, len(writes))}
	var refused refusals
	for n := range writes {
		if err := c.one(ctx, &writes[n], &status.Items[n]); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			refused.add(n, &writes[n], err)
		}
		if err := c.fork.CatchUp(ctx); err != nil { // the next one is authorized by the roles of this one
			return nil, apierrors.NewInternalError(err)
		}
	}
	return status, refused.err()
}

// one carries out one write.
func (c *carrying) one(ctx context.Context, w *write, status *v1.ItemStatus) error {
	target, err := c.target(ctx, w)
	if err != nil {
		return err
	}
	w.Object.Raw = c.renamed(w.Object.Raw)
	code, after, err := c.send(ctx, w, target, status)
	if err != nil {
		return err
	}
	c.define(w)
	status.Result = c.result(w, code, after)
	target.Name = cmp.Or(target.Name, after.Name)
	if w.UID != "" {
		c.uids[w.UID] = after.UID
	}
	if err := c.own(ctx, w, target, status); err != nil {
		return err
	}
	c.items[id{target.Resource.Group, target.Resource.Resource, target.Namespace, target.Name}] = versionOf(status.Object.Raw)
	return nil
}

// send sends the request of a write, and takes note of the answer.
func (c *carrying) send(ctx context.Context, w *write, t inprocess.Target, status *v1.ItemStatus) (code int, after *metav1.PartialObjectMetadata, err error) {
	r, err := c.request(ctx, w, t)
	if err != nil {
		return 0, nil, err
	}
	resp, err := c.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return 0, nil, Refusal(resp.StatusCode, body)
	}
	headers, _ := utilnet.ParseWarningHeaders(resp.Header["Warning"])
	for _, h := range headers {
		if !slices.Contains(status.Warnings, h.Text) {
			status.Warnings = append(status.Warnings, h.Text)
		}
	}
	status.Object.Raw = body
	after = &metav1.PartialObjectMetadata{}
	return resp.StatusCode, after, json.Unmarshal(body, after)
}

// result says what a write has done.
func (c *carrying) result(w *write, code int, after *metav1.PartialObjectMetadata) string {
	switch {
	case w.Verb == v1.Delete:
		return v1.Deleted
	case code == http.StatusCreated:
		return v1.Created
	case !newer(after.ResourceVersion, c.fork.Since()):
		return v1.Unchanged
	}
	return v1.Changed
}

// request makes the request of a write.
func (c *carrying) request(ctx context.Context, w *write, t inprocess.Target) (*http.Request, error) {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("fieldManager", cmp.Or(c.options.FieldManager, w.Manager))
	set("fieldValidation", c.options.FieldValidation)
	method, media, body := http.MethodPost, "application/json", w.Object.Raw
	switch w.Verb {
	case v1.Create:
		t.Name = ""
	case v1.Update:
		method = http.MethodPut
	case v1.Apply:
		method, media = http.MethodPatch, string(types.ApplyYAMLPatchType)
		if query.Get("fieldManager") == "" {
			query.Set("fieldManager", "bundle")
		}
		if w.Force {
			query.Set("force", "true")
		}
	case v1.Delete:
		method, query = http.MethodDelete, url.Values{}
		o := metav1.DeleteOptions{PropagationPolicy: w.PropagationPolicy, Preconditions: &metav1.Preconditions{}}
		o.APIVersion, o.Kind = "v1", "DeleteOptions"
		if w.meta.UID != "" {
			o.Preconditions.UID = &w.meta.UID
		}
		if w.meta.ResourceVersion != "" {
			o.Preconditions.ResourceVersion = &w.meta.ResourceVersion
		}
		var err error
		if body, err = json.Marshal(&o); err != nil {
			return nil, err
		}
	}
	u := url.URL{Scheme: "http", Host: "in-process", Path: t.Path(), RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{"Content-Type": {media}, "Accept": {"application/json"}, "User-Agent": {"kanzen-bundle"}}
	return r, nil
}

// established bounds how long a kind may take to be served that was defined in the same bundle.
const established = 10 * time.Second

// target finds where an object lies.
func (c *carrying) target(ctx context.Context, w *write) (inprocess.Target, error) {
	kind := w.meta.GroupVersionKind()
	gvr, namespaced, ok := c.fork.Find(kind)
	for end := time.Now().Add(established); !ok && c.defined[kind.GroupKind()] && time.Now().Before(end) && ctx.Err() == nil; gvr, namespaced, ok = c.fork.Find(kind) {
		time.Sleep(time.Millisecond)
	}
	if !ok {
		return inprocess.Target{}, apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, "no such kind is served here, or it is one of an extension server")
	}
	t := inprocess.Target{Resource: gvr, Namespace: w.meta.Namespace, Name: w.meta.Name, Subresource: w.Subresource}
	switch {
	case namespaced:
		t.Namespace = w.namespace
	case !namespaced && t.Namespace != "":
		return t, apierrors.NewBadRequest(fmt.Sprintf("objects of kind %s have no namespace", kind.Kind))
	}
	return t, nil
}

// define takes note of a definition.
func (c *carrying) define(w *write) {
	if w.meta.Kind != "CustomResourceDefinition" {
		return
	}
	var d struct {
		Spec struct {
			Group string
			Names struct{ Kind string }
		}
	}
	if json.Unmarshal(w.Object.Raw, &d) != nil {
		return
	}
	if c.defined == nil {
		c.defined = map[schema.GroupKind]bool{}
	}
	c.defined[schema.GroupKind{Group: d.Spec.Group, Kind: d.Spec.Names.Kind}] = true
}
