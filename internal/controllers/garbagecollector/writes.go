package garbagecollector

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/controllers/remotes"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// now reads the links of an object; ok is false if there is none of its name. It returns the revision, or the moment,
// as of which this is so.
func (g *Collector) now(ctx context.Context, k *kind, namespace, name string) (links engine.Links, ok bool, rev int64, err error) {
	if k.remote != nil {
		rev = g.moment.Add(1)
		m, err := g.remote.Get(ctx, k.remote, namespace, name)
		if remotes.Absent(err, name) {
			return links, false, rev, nil
		}
		if err != nil {
			return links, false, 0, err
		}
		return engine.Links{UID: m.UID, Deleting: m.DeletionTimestamp != nil, Finalizers: m.Finalizers, Owners: m.OwnerReferences}, true, rev, nil
	}
	value, rev, err := g.Store.Read(ctx, k.key(namespace, name))
	if errors.Is(err, store.ErrNotFound) {
		return links, false, rev, nil
	}
	if err == nil {
		links, err = engine.LinksOf(value) // an unreadable object may be the owner
	}
	return links, err == nil, rev, err
}

// delete deletes an object if it has not changed since it was judged.
func (g *Collector) delete(ctx context.Context, n *node, o object, policy metav1.DeletionPropagation) error {
	err := g.remove(ctx, o, n.unchanged(o), policy)
	if !apierrors.IsConflict(err) {
		return err
	}
	// Changes that do not affect the owners must not keep the object alive.
	links, ok, _, rerr := g.now(ctx, o.kind, o.namespace, o.object)
	if rerr == nil && !ok {
		return nil
	}
	if rerr != nil || links.UID != n.links.UID || !equality.Semantic.DeepEqual(links.Owners, n.links.Owners) {
		return err
	}
	return g.remove(ctx, o, n.same(o), policy)
}

func (g *Collector) remove(ctx context.Context, o object, w request.Which, policy metav1.DeletionPropagation) error {
	options := &metav1.DeleteOptions{PropagationPolicy: &policy}
	if o.remote != nil {
		return g.remote.Delete(ctx, o.remote, w, options)
	}
	return g.Client.Delete(ctx, o.target(), w, options)
}

// edit changes the metadata of an object, unless another one has its name by now.
func (g *Collector) edit(ctx context.Context, n *node, o object, change func(obj engine.Object)) error {
	edit := func(obj engine.Object) error { change(obj); return nil }
	if o.remote != nil {
		return g.remote.Edit(ctx, o.remote, n.same(o), edit)
	}
	_, err := inprocess.Edit(ctx, g.Client, o.target(), n.same(o), edit)
	return err
}

// meta is what is known of an object.
func (n *node) meta(o object) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Namespace: o.namespace, Name: o.object, UID: n.links.UID, ResourceVersion: n.resourceVersion()}
}

// same is the object of a node, whatever has changed in it.
func (n *node) same(o object) request.Which { return request.Same(n.meta(o)) }

// unchanged is the object as it was last seen; whatever has changed in it if its revision is not known.
func (n *node) unchanged(o object) request.Which {
	m := n.meta(o)
	if m.ResourceVersion == "" {
		return request.Same(m)
	}
	return request.Unchanged(m)
}

// disown removes the references to some owners from an object.
func (g *Collector) disown(ctx context.Context, n *node, o object, owners ...types.UID) error {
	return g.edit(ctx, n, o, func(obj engine.Object) {
		obj.SetOwnerReferences(slices.DeleteFunc(obj.GetOwnerReferences(), func(have metav1.OwnerReference) bool {
			return slices.Contains(owners, have.UID)
		}))
	})
}

// unblock lets the owners of an object no longer wait for it.
func (g *Collector) unblock(ctx context.Context, n *node, o object) error {
	return g.edit(ctx, n, o, func(obj engine.Object) {
		refs := obj.GetOwnerReferences()
		for i := range refs {
			if refs[i].BlockOwnerDeletion != nil {
				blocks := false
				refs[i].BlockOwnerDeletion = &blocks
			}
		}
		obj.SetOwnerReferences(refs)
	})
}

func (g *Collector) removeFinalizer(ctx context.Context, n *node, o object, finalizer string) error {
	return g.edit(ctx, n, o, func(obj engine.Object) {
		obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == finalizer }))
	})
}
