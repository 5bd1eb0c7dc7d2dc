package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

// Change says how an object differs between two states.
type Change struct {
	ID
	// Kind is '+' (only the second state has the object), '-' (only the first), '~' (both, and they differ) or '!' (it
	// cannot be compared).
	Kind byte
	// Fields are paths of fields that differ. Values are not told: they may be secret.
	Fields []string
	Err    error
}

// String is one line for a Change.
func (c Change) String() string {
	line := string(c.Kind) + " " + c.ID.String()
	if len(c.Fields) > 0 {
		line += "  " + strings.Join(c.Fields, " ")
	}
	if c.Err != nil {
		line += "  " + c.Err.Error()
	}
	return line
}

// Diff calls told with each object that differs between two snapshots, in the order of keys.
func (k *Kinds) Diff(ctx context.Context, a, b *File, filter *Filter, told func(Change)) error {
	of := func(f *File, e Entry, id ID) (*Object, error) {
		_, builtin, _ := k.place(e.Key)
		return k.object(ctx, f, e, id, builtin)
	}
	for i, j := 0, 0; i < len(a.Entries) || j < len(b.Entries); {
		if err := ctx.Err(); err != nil {
			return err
		}
		order := 0
		switch {
		case i == len(a.Entries):
			order = 1
		case j == len(b.Entries):
			order = -1
		default:
			order = strings.Compare(a.Entries[i].Key, b.Entries[j].Key)
		}
		var key string
		switch {
		case order < 0:
			key = a.Entries[i].Key
		default:
			key = b.Entries[j].Key
		}
		id, _, ok := k.place(key)
		ok = ok && filter.Matches(id)
		switch {
		case order < 0:
			if ok {
				told(Change{ID: id, Kind: '-'})
			}
			i++
		case order > 0:
			if ok {
				told(Change{ID: id, Kind: '+'})
			}
			j++
		default:
			if ok {
				if err := k.compareEntries(a, b, a.Entries[i], b.Entries[j], id, of, told); err != nil {
					return err
				}
			}
			i, j = i+1, j+1
		}
	}
	return nil
}

// compareEntries decodes only values whose bytes differ.
func (k *Kinds) compareEntries(a, b *File, ea, eb Entry, id ID, of func(*File, Entry, ID) (*Object, error), told func(Change)) error {
	va, err := a.Value(ea)
	if err != nil {
		return err
	}
	vb, err := b.Value(eb)
	if err != nil || bytes.Equal(va, vb) {
		return err
	}
	oa, err := of(a, ea, id)
	if err != nil {
		told(Change{ID: id, Kind: '!', Err: err})
		return nil
	}
	ob, err := of(b, eb, id)
	if err != nil {
		told(Change{ID: id, Kind: '!', Err: err})
		return nil
	}
	if fields := differing(oa.Unstructured, ob.Unstructured); len(fields) > 0 {
		told(Change{ID: id, Kind: '~', Fields: fields})
	}
	return nil
}

// DiffServer is Diff of a snapshot and what a server has now.
func (k *Kinds) DiffServer(ctx context.Context, f *File, s *Server, filter *Filter, told func(Change)) error {
	entries, versions := map[schema.GroupResource]map[ID]Entry{}, map[schema.GroupResource]schema.GroupVersionResource{}
	for _, e := range f.Entries {
		id, builtin, ok := k.place(e.Key)
		if !ok || !filter.Matches(id) {
			continue
		}
		if entries[id.GroupResource] == nil {
			o, err := k.object(ctx, f, e, id, builtin)
			if err != nil {
				told(Change{ID: id, Kind: '!', Err: err})
				continue
			}
			entries[id.GroupResource], versions[id.GroupResource] = map[ID]Entry{}, o.Resource()
		}
		entries[id.GroupResource][id] = e
	}
	if err := k.addServed(ctx, s, filter, versions); err != nil {
		return err
	}
	for _, gr := range slices.SortedFunc(maps.Keys(versions), func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) }) {
		if err := k.diffResource(ctx, f, s, filter, versions[gr], entries[gr], told); err != nil {
			return fmt.Errorf("%s: %w", gr, err)
		}
	}
	return nil
}

// definitions are the custom resource definitions of a server.
var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// addServed adds the resources that the server has and the snapshot has no object of.
func (k *Kinds) addServed(ctx context.Context, s *Server, filter *Filter, versions map[schema.GroupResource]schema.GroupVersionResource) error {
	add := func(gvr schema.GroupVersionResource) {
		if len(filter.Resources) > 0 && !slices.Contains(filter.Resources, gvr.GroupResource().String()) {
			return
		}
		if _, ok := versions[gvr.GroupResource()]; !ok {
			versions[gvr.GroupResource()] = gvr
		}
	}
	for _, r := range k.byPrefix {
		add(r.Hub.WithResource(r.Plural))
	}
	return s.list(ctx, definitions, "", func(u *unstructured.Unstructured) error {
		group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(u.Object, "spec", "names", "plural")
		served, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
		for _, v := range served {
			if v, ok := v.(map[string]any); ok && v["served"] == true {
				name, _ := v["name"].(string)
				add(schema.GroupVersionResource{Group: group, Version: name, Resource: plural})
				return nil
			}
		}
		return nil
	})
}

func (k *Kinds) diffResource(ctx context.Context, f *File, s *Server, filter *Filter, gvr schema.GroupVersionResource, entries map[ID]Entry, told func(Change)) error {
	var changes []Change
	err := s.list(ctx, gvr, "", func(u *unstructured.Unstructured) error {
		id := ID{GroupResource: gvr.GroupResource(), Namespace: u.GetNamespace(), Name: u.GetName()}
		if !filter.Matches(id) {
			return nil
		}
		e, ok := entries[id]
		if !ok {
			changes = append(changes, Change{ID: id, Kind: '+'})
			return nil
		}
		delete(entries, id)
		_, builtin, _ := k.place(e.Key)
		o, err := k.object(ctx, f, e, id, builtin)
		if err != nil {
			changes = append(changes, Change{ID: id, Kind: '!', Err: err})
			return nil
		}
		if u.GetUID() == o.GetUID() && u.GetResourceVersion() == fmt.Sprint(e.ModRevision) {
			return nil
		}
		if u.GetAPIVersion() != o.GetAPIVersion() { // an object that is stored in another version than the first one
			if u, err = s.get(ctx, o.Resource(), id.Namespace, id.Name); err != nil {
				changes = append(changes, Change{ID: id, Kind: '!', Err: err})
				return nil
			}
		}
		if fields := differing(o.Unstructured, u); len(fields) > 0 {
			changes = append(changes, Change{ID: id, Kind: '~', Fields: fields})
		}
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) { // a resource that is not served has no objects
		return err
	}
	for id := range entries {
		changes = append(changes, Change{ID: id, Kind: '-'})
	}
	slices.SortFunc(changes, func(a, b Change) int { return a.compare(b.ID) })
	for _, c := range changes {
		told(c)
	}
	return nil
}

// compared returns an object without what a server decides anew when the object is made again.
func compared(u *unstructured.Unstructured) map[string]any {
	c := u.DeepCopy()
	for _, field := range []string{"resourceVersion", "managedFields", "uid", "creationTimestamp", "generation", "selfLink"} {
		unstructured.RemoveNestedField(c.Object, "metadata", field)
	}
	owners := c.GetOwnerReferences()
	for n := range owners {
		owners[n].UID = ""
	}
	if len(owners) > 0 {
		c.SetOwnerReferences(owners)
	}
	return c.Object
}

// maxFields bounds how many fields of a changed object are told.
const maxFields = 8

// differing returns the paths of fields that differ.
func differing(a, b *unstructured.Unstructured) []string {
	var out []string
	jsonobject.Differences(compared(a), compared(b), func(path string, _, _ any) bool {
		if len(out) == maxFields {
			out[maxFields-1] = "…"
			return false
		}
		out = append(out, path)
		return true
	})
	return out
}
