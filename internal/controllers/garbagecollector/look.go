package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/inprocess"
	"github.com/kanzen-io/kanzen/internal/store"
)

// look does the pending work for the object at a key.
func (g *Collector) look(ctx context.Context, key string) error {
	n := g.graph.node(key)
	if n == nil {
		return nil
	}
	o, ok := g.object(key)
	if !ok {
		return nil // its definition was deleted, and its objects with it
	}
	var err error
	switch {
	case n.orphaning():
		err = g.release(ctx, n, o)
	case n.foreground():
		err = g.await(ctx, n, o)
	case n.links.Deleting: // it is being deleted already
	default:
		err = g.judge(ctx, n, o)
	}
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil // the log reports it if it was deleted; an object that cannot be deleted stays
	}
	return err
}

// references are the references of an object, by the state of their owners.
type references struct {
	solid, dangling, waiting []metav1.OwnerReference
}

// errUnknownKind means that it cannot be known whether an owner exists: its kind may be served later.
var errUnknownKind = errors.New("the kind of an owner is not served")

// judge deletes an object without existing owners, and otherwise removes its references to owners that do not
// exist.
func (g *Collector) judge(ctx context.Context, n *node, o object) error {
	refs, err := g.classify(ctx, n, o)
	if err != nil || refs == nil {
		return err
	}
	switch {
	case len(refs.solid) > 0:
		// A reference to an owner that waits for its dependents is removed too, because the owner would wait
		// forever.
		return g.disown(ctx, n, o, append(refs.dangling, refs.waiting...))
	case len(refs.waiting) > 0 && len(g.graph.dependents(n)) > 0:
		if slices.ContainsFunc(g.graph.dependents(n), (*node).foreground) {
			// It may be part of a cycle whose members wait for each other.
			if err := g.unblock(ctx, n, o); err != nil {
				return err
			}
		}
		return g.delete(ctx, n, o, metav1.DeletePropagationForeground)
	case n.links.Has(metav1.FinalizerOrphanDependents):
		return g.delete(ctx, n, o, metav1.DeletePropagationOrphan)
	case n.links.Has(metav1.FinalizerDeleteDependents):
		return g.delete(ctx, n, o, metav1.DeletePropagationForeground)
	}
	return g.delete(ctx, n, o, metav1.DeletePropagationBackground)
}

// classify looks up the state of an object's owners. It returns nil if there is nothing to do.
func (g *Collector) classify(ctx context.Context, n *node, o object) (*references, error) {
	var refs references
	for i := range n.links.Owners {
		ref, id := &n.links.Owners[i], n.owners[i]
		r := g.ownerResource(ref)
		if r != nil && id.key == "" && (!r.Namespaced || o.namespace != "") {
			g.graph.relink(n)
			return nil, fmt.Errorf("%w: it was not", errUnknownKind) // look again
		}
		if r == nil {
			return nil, fmt.Errorf("%w: %s %s", errUnknownKind, ref.APIVersion, ref.Kind)
		}
		if r.Namespaced && o.namespace == "" {
			// Only a change of the object can resolve that.
			found, err := g.elsewhere(ctx, ref)
			if found {
				g.warn(ctx, n, o, ref)
			}
			return nil, err
		}
		state, err := g.ownerState(ctx, n, o, ref, id)
		if err != nil {
			return nil, err
		}
		switch state {
		case alive:
			refs.solid = append(refs.solid, *ref)
		case foreground:
			refs.waiting = append(refs.waiting, *ref)
		default:
			refs.dangling = append(refs.dangling, *ref)
		}
	}
	if len(refs.dangling)+len(refs.waiting) == 0 {
		return nil, nil
	}
	return &refs, nil
}

// ownerState returns the state of an owner, from the log or, if the log has not reported it, from the store.
func (g *Collector) ownerState(ctx context.Context, n *node, o object, ref *metav1.OwnerReference, id ownerID) (ownerState, error) {
	state, elsewhere := g.graph.state(id)
	if state == unknown {
		var rev int64
		var err error
		if state, rev, err = g.stored(ctx, id); err != nil {
			return unknown, err
		}
		if state == gone {
			if elsewhere, err = g.elsewhere(ctx, ref); err != nil {
				return unknown, err
			}
		}
		g.graph.found(id, state, elsewhere, rev)
	}
	if elsewhere {
		g.warn(ctx, n, o, ref)
	}
	return state, nil
}

// stored reads the state of an owner, as of a revision.
func (g *Collector) stored(ctx context.Context, id ownerID) (ownerState, int64, error) {
	value, rev, err := g.Store.Read(ctx, id.key)
	if errors.Is(err, store.ErrNotFound) {
		return gone, rev, nil
	}
	if err != nil {
		return unknown, 0, err
	}
	links, err := engine.LinksOf(value)
	there := &node{links: links}
	switch {
	case err != nil:
		return unknown, 0, err // an unreadable object may be the owner
	case links.UID != id.uid:
		return gone, rev, nil
	case there.foreground():
		return foreground, rev, nil
	}
	return alive, rev, nil
}

// delete deletes an object if it has not changed since it was judged.
func (g *Collector) delete(ctx context.Context, n *node, o object, policy metav1.DeletionPropagation) error {
	rev := strconv.FormatInt(n.rev, 10)
	options := &metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &n.links.UID, ResourceVersion: &rev}}
	err := g.Client.Delete(ctx, o.target(), options)
	if !apierrors.IsConflict(err) {
		return err
	}
	// Changes that do not affect the owners must not keep the object alive.
	value, _, rerr := g.Store.Read(ctx, n.key)
	if errors.Is(rerr, store.ErrNotFound) {
		return nil
	}
	links, rerr := engine.LinksOf(value)
	if rerr != nil || links.UID != n.links.UID || !equality.Semantic.DeepEqual(links.Owners, n.links.Owners) {
		return err
	}
	options.Preconditions.ResourceVersion = nil
	return g.Client.Delete(ctx, o.target(), options)
}

// edit changes the metadata of an object, unless another one has its name by now.
func (g *Collector) edit(ctx context.Context, n *node, o object, change func(obj engine.Object)) error {
	_, err := inprocess.Edit(ctx, g.Client, o.target(), func(obj engine.Object) error {
		if obj.GetUID() != n.links.UID {
			return apierrors.NewNotFound(o.resource.GroupResource, o.name)
		}
		change(obj)
		return nil
	})
	return err
}

// disown removes references from an object.
func (g *Collector) disown(ctx context.Context, n *node, o object, refs []metav1.OwnerReference) error {
	return g.edit(ctx, n, o, func(obj engine.Object) {
		obj.SetOwnerReferences(slices.DeleteFunc(obj.GetOwnerReferences(), func(have metav1.OwnerReference) bool {
			return slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return ref.UID == have.UID })
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

// await completes the foreground deletion of an object once no dependent blocks it.
func (g *Collector) await(ctx context.Context, n *node, o object) error {
	if g.graph.blocked(n) {
		return nil // the log reports its deletion
	}
	return g.removeFinalizer(ctx, n, o, metav1.FinalizerDeleteDependents)
}

// release removes the references of an object's dependents to it, and then completes its deletion.
func (g *Collector) release(ctx context.Context, n *node, o object) error {
	dependents := g.graph.dependents(n)
	errs := make([]error, len(dependents))
	slots := make(chan struct{}, workers)
	var wg sync.WaitGroup
	for i, d := range dependents {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = g.Guard.Call("release of a dependent", func() error {
				of, ok := g.object(d.key)
				if !ok {
					return nil
				}
				err := g.disown(ctx, d, of, []metav1.OwnerReference{{UID: n.links.UID}})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return err
			})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return g.removeFinalizer(ctx, n, o, metav1.FinalizerOrphanDependents)
}

func (g *Collector) removeFinalizer(ctx context.Context, n *node, o object, finalizer string) error {
	return g.edit(ctx, n, o, func(obj engine.Object) {
		obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == finalizer }))
	})
}
