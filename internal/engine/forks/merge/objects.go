package merge

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kanzen-io/kanzen/internal/engine/bundle"
	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	v1 "github.com/kanzen-io/kanzen/internal/engine/forks/v1"
)

// object is an object on the three sides, as the user sees it.
type object struct {
	bundle.Change
	// base, ours and theirs are nil where it is not there. One that is being deleted is not there any more.
	base, ours, theirs *unstructured.Unstructured
}

// merging works out what a merge writes.
type merging struct {
	base, ours, theirs *side
	fork               Fork
	server             bundle.Fork

	changes   []bundle.Change
	asked     map[objectID]bool // those of changes that requests have written
	objects   []*object
	writes    []bundle.Write
	conflicts []v1.Conflict
	left      []v1.Left
	// refused are the objects that could not be read.
	refused []metav1.StatusCause
	// orphaned is made by kept.
	orphaned map[types.UID]bool
}

// unmerged are resources whose objects only tell what has happened, or who is alive.
var unmerged = map[schema.GroupResource]bool{
	{Resource: "events"}: true, {Group: "events.k8s.io", Resource: "events"}: true, {Group: "coordination.k8s.io", Resource: "leases"}: true,
}

// all works out all writes, in the order in which the objects were first written in the fork: there, each was accepted after the ones
// before it.
func (m *merging) all(ctx context.Context) error {
	m.changes, m.asked = m.fork.Written(), map[objectID]bool{}
	asked := slices.DeleteFunc(slices.Clone(m.changes), func(c bundle.Change) bool { return c.Asked == 0 || unmerged[resourceOf(&c)] })
	slices.SortFunc(asked, func(a, b bundle.Change) int { return cmp.Compare(a.Asked, b.Asked) })
	for n := range asked {
		m.asked[idOf(&asked[n])] = true
		o, err := m.read(ctx, asked[n])
		switch {
		case apierrors.IsForbidden(err):
			m.refused = append(m.refused, metav1.StatusCause{Type: metav1.CauseTypeForbidden, Field: ofFork, Message: called(&asked[n]) + ": " + err.Error()})
		case err != nil:
			return err
		default:
			m.objects = append(m.objects, o)
		}
	}
	m.rename()
	for _, o := range m.objects {
		if owner, err := m.controller(ctx, o); err != nil {
			return err
		} else if owner != "" {
			m.left = append(m.left, v1.Left{APIVersion: o.apiVersion(), Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Controller: owner})
			continue
		}
		if err := m.one(ctx, o); err != nil {
			return err
		}
		if len(m.conflicts) > maxConflicts {
			return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the fork and the server have both changed more than %d fields, to different values", maxConflicts))
		}
	}
	return nil
}

// objectID names an object.
type objectID struct {
	schema.GroupResource
	namespace, name string
}

func idOf(c *bundle.Change) objectID { return objectID{resourceOf(c), c.Namespace, c.Name} }

func resourceOf(c *bundle.Change) schema.GroupResource {
	return schema.GroupResource{Group: c.Group, Resource: c.Resource}
}

func (o *object) apiVersion() string {
	return schema.GroupVersion{Group: o.Group, Version: o.Version}.String()
}

// read gets an object from the three sides.
func (m *merging) read(ctx context.Context, c bundle.Change) (*object, error) {
	o := &object{Change: c}
	for _, from := range []struct {
		*side
		into **unstructured.Unstructured
	}{{m.base, &o.base}, {m.ours, &o.ours}, {m.theirs, &o.theirs}} {
		var err error
		if *from.into, err = from.get(ctx, &c); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// called is how refusals call an object.
func called(c *bundle.Change) string {
	name := c.Name
	if c.Namespace != "" {
		name = c.Namespace + "/" + name
	}
	return schema.GroupVersion{Group: c.Group, Version: c.Version}.String() + " " + c.Kind + " " + name
}

// rename has objects that were created on both sides called by the UID that they have on the server, wherever ours refer to them.
func (m *merging) rename() {
	var pairs []string
	for _, o := range m.objects {
		if o.base == nil && o.ours != nil && o.theirs != nil {
			pairs = append(pairs, string(o.ours.GetUID()), string(o.theirs.GetUID()))
		}
	}
	if len(pairs) == 0 {
		return
	}
	names := strings.NewReplacer(pairs...)
	for _, o := range m.objects {
		if o.ours != nil {
			o.ours.Object, _ = renamed(names, o.ours.Object).(map[string]any)
		}
	}
}

// renamed replaces words in all texts of a value, and in the names of fields: metadata.managedFields has UIDs there.
func renamed(names *strings.Replacer, v any) any {
	switch v := v.(type) {
	case string:
		return names.Replace(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, below := range v {
			out[names.Replace(name)] = renamed(names, below)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for n := range v {
			out[n] = renamed(names, v[n])
		}
		return out
	}
	return v
}

// controller returns the controller to which an object is left; "": to none. What has a controller in the fork has one on the server
// too, which does there what follows from what it is told.
func (m *merging) controller(ctx context.Context, o *object) (string, error) {
	is := cmp.Or(o.ours, o.base) // what is gone had one, if it is still there
	if is == nil {
		return "", nil
	}
	ref := metav1.GetControllerOf(is)
	if ref == nil {
		return "", nil
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return "", nil // nobody can control by that
	}
	gvr, namespaced, ok := m.fork.Find(gv.WithKind(ref.Kind))
	if !ok {
		return "", nil
	}
	owner := bundle.Change{Version: gvr.Version, Other: bundlev1.Other{Group: gvr.Group, Resource: gvr.Resource, Name: ref.Name}}
	if namespaced {
		owner.Namespace = o.Namespace
	}
	found, err := m.ours.get(ctx, &owner)
	switch {
	case apierrors.IsForbidden(err):
		return "", nil // the user could not have known
	case err != nil || found == nil:
		return "", err
	}
	return ref.Kind + "/" + ref.Name, nil
}

// one works out the write of an object.
func (m *merging) one(ctx context.Context, o *object) error {
	switch {
	case o.ours == nil && o.theirs == nil:
		return nil // deleted by both
	case o.ours == nil:
		return m.remove(ctx, o)
	case o.theirs == nil && o.base != nil:
		if !differ(o.base, o.ours) {
			return nil // deleted by the server
		}
		m.conflict(o, conflict{theirs: absent}, changers(o.base, o.ours), nil)
		o.base = nil
	}
	return m.write(o)
}

// differ says whether two states of an object differ in what is merged.
func differ(a, b *unstructured.Unstructured) bool { return !same(content(a), content(b)) }

// changers are the managers that have written an object between two states of it.
func changers(before, after *unstructured.Unstructured) (names []string) {
	b, a := managersOf(before), managersOf(after)
	for who, set := range a.sets {
		if !who.statusOnly() && (!set.Difference(setOf(b, who)).Empty() || !b.times[who].Equal(a.times[who])) {
			names = append(names, who.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// bookkeeping are fields of metadata that the server keeps.
var bookkeeping = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields", "generateName"}

// content is what is merged of an object; absent: there is no object.
func content(o *unstructured.Unstructured) any {
	if o == nil {
		return absent
	}
	out := o.DeepCopy().Object
	meta, _ := out["metadata"].(map[string]any)
	for _, name := range bookkeeping {
		delete(meta, name)
	}
	return out
}

// write works out the write of an object that the fork has.
func (m *merging) write(o *object) error {
	base, ours, theirs := managersOf(o.base), managersOf(o.ours), managersOf(o.theirs)
	owned := ours.in(o.apiVersion())
	fields := merger{owned: func(at fieldpath.Path) bool { return names(at) || owned(at) }}
	merged, _ := fields.object(m.server.Fields(o.ours.GroupVersionKind()), content(o.base), content(o.ours), content(o.theirs)).(map[string]any)
	overwritten := fieldpath.NewSet()
	for _, c := range fields.conflicts {
		m.conflict(o, c, ours.of(c.path), theirs.of(c.path))
		overwritten.Insert(c.path)
	}
	owners := mergeOwners(base, ours, theirs, overwritten)
	if o.theirs != nil && same(content(o.theirs), any(merged)) && owners.alike(theirs) {
		return nil
	}
	w := bundle.Write{Field: ofFork, Manager: lastUpdater(o.ours)}
	w.Verb = bundlev1.Create
	switch {
	case o.theirs != nil:
		w.Verb = bundlev1.Update
		for _, name := range bookkeeping {
			if v, ok, _ := unstructured.NestedFieldNoCopy(o.theirs.Object, "metadata", name); ok {
				_ = unstructured.SetNestedField(merged, v, "metadata", name) // metadata is a map on both sides
			}
		}
	case o.base == nil:
		w.UID = o.ours.GetUID()
	}
	var err error
	if len(ours.sets) > 0 {
		if w.Owners, err = owners.entries(); err != nil {
			return err
		}
	}
	if w.Object.Raw, err = json.Marshal(merged); err == nil {
		m.writes = append(m.writes, w)
	}
	return err
}

// managersOf are the managers of an object; those of none are nobody.
func managersOf(o *unstructured.Unstructured) ownership {
	if o == nil {
		return ownership{}
	}
	return ownershipOf(o.GetManagedFields())
}

// names says whether a field names the object: such fields have no owners.
func names(at fieldpath.Path) bool {
	return at.Equals(fieldpath.MakePathOrDie("apiVersion")) || at.Equals(fieldpath.MakePathOrDie("kind")) ||
		at.Equals(fieldpath.MakePathOrDie("metadata", "name")) || at.Equals(fieldpath.MakePathOrDie("metadata", "namespace"))
}

// lastUpdater is who has last updated an object; "": nobody.
func lastUpdater(o *unstructured.Unstructured) (name string) {
	var last metav1.Time
	for _, e := range o.GetManagedFields() {
		if e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == "" && e.Time != nil && !e.Time.Before(&last) {
			name, last = e.Manager, *e.Time
		}
	}
	return name
}
