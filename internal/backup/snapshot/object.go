package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/cbor"
	"github.com/kanzen-io/kanzen/internal/store"
)

// ID names an object.
type ID struct {
	schema.GroupResource
	Namespace, Name string
}

// String is the object as kubectl names it: "deployments.apps shop/web".
func (id ID) String() string {
	if id.Namespace == "" {
		return id.GroupResource.String() + " " + id.Name
	}
	return id.GroupResource.String() + " " + id.Namespace + "/" + id.Name
}

func (id ID) compare(other ID) int {
	if c := strings.Compare(id.GroupResource.String(), other.GroupResource.String()); c != 0 {
		return c
	}
	if c := strings.Compare(id.Namespace, other.Namespace); c != 0 {
		return c
	}
	return strings.Compare(id.Name, other.Name)
}

// Kinds turns what etcd has into objects.
type Kinds struct {
	prefix      string // of all keys: "/registry/"
	byPrefix    map[string]*engine.Resource
	transformer func(schema.GroupResource) store.Transformer
}

// NewKinds returns the Kinds of keys below a prefix, with or without slashes around it. Keys that belong to none of the
// built-in resources belong to custom ones. transformer decrypts values.
func NewKinds(prefix string, builtin []*engine.Resource, transformer func(schema.GroupResource) store.Transformer) *Kinds {
	k := &Kinds{prefix: "/" + strings.Trim(prefix, "/") + "/", byPrefix: map[string]*engine.Resource{}, transformer: transformer}
	for _, r := range builtin {
		if r.Prefix != "" {
			k.byPrefix[r.Prefix] = r
		}
	}
	return k
}

// place finds the resource and the object that a key belongs to. builtin is nil for custom resources. Keys of
// servers' own bookkeeping belong to none.
func (k *Kinds) place(key string) (id ID, builtin *engine.Resource, ok bool) {
	rest, ok := strings.CutPrefix(key, k.prefix)
	if !ok {
		return ID{}, nil, false
	}
	segments := strings.Split(rest, "/")
	for n := 1; n <= 2 && n < len(segments); n++ {
		if r := k.byPrefix[strings.Join(segments[:n], "/")]; r != nil {
			id = ID{GroupResource: schema.GroupResource{Group: r.Hub.Group, Resource: r.Plural}}
			return id, r, id.named(segments[n:], r.Namespaced)
		}
	}
	if len(segments) < 3 || !strings.Contains(segments[0], ".") {
		return ID{}, nil, false
	}
	id = ID{GroupResource: schema.GroupResource{Group: segments[0], Resource: segments[1]}}
	return id, nil, id.named(segments[2:], len(segments) == 4)
}

func (id *ID) named(segments []string, namespaced bool) bool {
	if namespaced && len(segments) == 2 {
		id.Namespace, id.Name = segments[0], segments[1]
		return true
	}
	id.Name = segments[0]
	return !namespaced && len(segments) == 1
}

// decode makes an object of a stored value.
func (k *Kinds) decode(ctx context.Context, e Entry, id ID, builtin *engine.Resource, value []byte) (*unstructured.Unstructured, error) {
	plain, _, err := k.transformer(id.GroupResource).FromStorage(ctx, e.Key, value)
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	if builtin == nil {
		content, err := decodeCustom(plain)
		return &unstructured.Unstructured{Object: content}, err
	}
	obj, err := builtin.Decode(ctx, plain)
	if err != nil {
		return nil, err
	}
	// Over JSON, and not by ToUnstructured, so that numbers and nulls are those that a server sends.
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	content := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &content); err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// decodeCustom decodes a custom resource, of JSON or CBOR.
func decodeCustom(plain []byte) (_ map[string]any, err error) {
	if cbor.Is(plain) {
		if plain, err = cbor.ToJSON(plain); err != nil {
			return nil, err
		}
	}
	content := map[string]any{}
	return content, kjson.UnmarshalCaseSensitivePreserveInts(plain, &content)
}

// Object is an object of a snapshot.
type Object struct {
	ID
	*unstructured.Unstructured
	ModRevision int64
}

// Resource returns the version and resource under which servers have it.
func (o *Object) Resource() schema.GroupVersionResource {
	return o.GroupVersionKind().GroupVersion().WithResource(o.ID.Resource)
}

// Filter selects objects; empty fields select all.
type Filter struct {
	Namespaces []string
	// Resources are resources as "deployments.apps" or "secrets".
	Resources []string
	// Names are names of objects; a namespace's objects are not selected by its name.
	Names []string
}

// Matches says that an object is selected.
func (f *Filter) Matches(id ID) bool {
	among := func(list []string, s string) bool { return len(list) == 0 || slices.Contains(list, s) }
	if len(f.Namespaces) > 0 && id.Namespace == "" {
		// The namespace itself belongs to what is in it.
		return id.GroupResource == (schema.GroupResource{Resource: "namespaces"}) && slices.Contains(f.Namespaces, id.Name) &&
			among(f.Resources, "namespaces") && len(f.Names) == 0
	}
	return among(f.Namespaces, id.Namespace) && among(f.Resources, id.GroupResource.String()) && among(f.Names, id.Name)
}

// Damaged is an object that cannot be read.
type Damaged struct {
	ID
	Err error
}

// Objects calls f with each selected object, in the order of keys, and returns those that cannot be read.
func (k *Kinds) Objects(ctx context.Context, file *File, filter *Filter, f func(*Object) error) ([]Damaged, error) {
	var damaged []Damaged
	for _, e := range file.Entries {
		if err := ctx.Err(); err != nil {
			return damaged, err
		}
		id, builtin, ok := k.place(e.Key)
		if !ok || !filter.Matches(id) {
			continue
		}
		obj, err := k.object(ctx, file, e, id, builtin)
		if err != nil {
			damaged = append(damaged, Damaged{id, err})
			continue
		}
		if err := f(obj); err != nil {
			return damaged, err
		}
	}
	return damaged, nil
}

func (k *Kinds) object(ctx context.Context, file *File, e Entry, id ID, builtin *engine.Resource) (*Object, error) {
	value, err := file.Value(e)
	if err != nil {
		return nil, err
	}
	u, err := k.decode(ctx, e, id, builtin, value)
	if err != nil {
		return nil, err
	}
	if err := id.check(u); err != nil {
		return nil, err
	}
	return &Object{ID: id, Unstructured: u, ModRevision: e.ModRevision}, nil
}

// check returns an error if an object is not the one that its key names. It was selected by its key, and is addressed by what it
// says itself: that must not lead to an object that was not selected.
func (id ID) check(u *unstructured.Unstructured) error {
	of := ID{schema.GroupResource{Group: u.GroupVersionKind().Group, Resource: id.Resource}, u.GetNamespace(), u.GetName()}
	if of != id {
		return fmt.Errorf("it says that it is %s of group %q", of, of.Group)
	}
	for _, part := range []string{id.Group, u.GroupVersionKind().Version, id.Resource, id.Namespace, id.Name} {
		if wrong := content.IsPathSegmentName(part); len(wrong) > 0 {
			return fmt.Errorf("%q cannot be a part of a path: %s", part, wrong[0])
		}
	}
	return nil
}
