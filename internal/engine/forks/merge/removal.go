package merge

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/engine/bundle"
	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
)

// This file decides what is deleted.

// remove works out the deletion of an object.
func (m *merging) remove(ctx context.Context, o *object) error {
	if o.base == nil {
		return nil // it was made and deleted in the fork
	}
	if o.base.GetUID() != o.theirs.GetUID() || differ(o.base, o.theirs) {
		m.conflict(o, conflict{ours: absent}, nil, changers(o.base, o.theirs))
	}
	if err := m.taken(ctx, o); err != nil {
		return err
	}
	w := bundle.Write{Field: ofFork}
	w.Verb = bundlev1.Delete
	policy := metav1.DeletePropagationBackground
	kept, err := m.kept(ctx)
	if err != nil {
		return err
	}
	if kept[o.base.GetUID()] {
		policy = metav1.DeletePropagationOrphan
	}
	w.PropagationPolicy = &policy
	only := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: o.apiVersion(), Kind: o.Kind}, ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.theirs.GetUID()}}
	if w.Object.Raw, err = json.Marshal(&only); err == nil {
		m.writes = append(m.writes, w)
	}
	return err
}

// taken looks for what a deletion would take away with the object, a namespace or a definition, although the server has created or
// changed it since the fork was made.
func (m *merging) taken(ctx context.Context, o *object) error {
	of, namespace := schema.GroupResource{}, ""
	switch resourceOf(&o.Change) {
	case schema.GroupResource{Resource: "namespaces"}:
		namespace = o.Name
	case schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:
		of.Resource, of.Group, _ = strings.Cut(o.Name, ".")
	default:
		return nil
	}
	for _, c := range m.server.Apart(m.fork.Cut(), of, namespace) {
		if unmerged[resourceOf(&c)] || m.asked[idOf(&c)] {
			continue // of those that requests have written there, each is looked at by itself
		}
		now, err := m.theirs.get(ctx, &c)
		var before *unstructured.Unstructured
		if err == nil {
			before, err = m.base.get(ctx, &c)
		}
		switch {
		case apierrors.IsForbidden(err): // its name is not told either
			c.Name, c.Namespace = "", ""
			m.conflict(&object{Change: c}, conflict{ours: absent}, nil, nil)
		case err != nil:
			return err
		case now != nil && differ(before, now):
			m.conflict(&object{Change: c}, conflict{ours: absent}, nil, changers(before, now))
		}
	}
	return nil
}

// kept are the UIDs of owners that were deleted in the fork while objects that they owned were kept: its garbage collector has taken
// the references off them.
func (m *merging) kept(ctx context.Context) (map[types.UID]bool, error) {
	if m.orphaned != nil {
		return m.orphaned, nil
	}
	m.orphaned = map[types.UID]bool{}
	for _, c := range m.changes {
		if c.Result != bundlev1.Changed {
			continue
		}
		was, err := m.base.get(ctx, &c)
		var is *unstructured.Unstructured
		if err == nil && was != nil && len(was.GetOwnerReferences()) > 0 {
			is, err = m.ours.get(ctx, &c)
		}
		switch {
		case apierrors.IsForbidden(err): // the user does not see it, and so cannot keep it
			continue
		case err != nil:
			return nil, err
		case is == nil:
			continue
		}
		for _, r := range was.GetOwnerReferences() {
			m.orphaned[r.UID] = m.orphaned[r.UID] || !refersTo(is, r.UID)
		}
	}
	return m.orphaned, nil
}

func refersTo(o *unstructured.Unstructured, owner types.UID) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner })
}
