package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/controllers/remotes"
)

// look does the pending work for the object at a key, or leaves it to the workers of an extension server.
func (g *Collector) look(ctx context.Context, key string) error {
	n := g.graph.node(key)
	if n == nil {
		return nil
	}
	o, ok := g.object(key)
	if !ok {
		// The log may be ahead of the definitions of custom resources, which follow it.
		if err := g.Catalog.Settle(ctx); err != nil {
			return err
		}
		if o, ok = g.object(key); !ok {
			return nil // its definition was deleted, and its objects with it
		}
	}
	if lane := g.lane(ctx, n, o); lane != nil {
		lane.Add(key)
		return nil
	}
	return g.act(ctx, key)
}

// act does the pending work for the object at a key.
func (g *Collector) act(ctx context.Context, key string) error {
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
	if missing(o, err) || apierrors.IsMethodNotSupported(err) {
		return nil // the log reports it if it was deleted; an object that cannot be deleted stays
	}
	return err
}

// missing reports whether an error says that there is no such object.
func missing(o object, err error) bool {
	if o.remote != nil {
		return remotes.Absent(err, o.object)
	}
	return apierrors.IsNotFound(err)
}

// references are the references of an object, by the state of their owners.
type references struct {
	solid, dangling, waiting []types.UID
}

// errUnknownKind means that it cannot be known whether an owner exists: its kind may be served later.
var errUnknownKind = errors.New("the kind of an owner is not served")

// errChanged means that an object is not what was seen of it: the change will be.
var errChanged = errors.New("the owners have changed")

// judge deletes an object without existing owners, and otherwise removes its references to owners that do not
// exist.
func (g *Collector) judge(ctx context.Context, n *node, o object) error {
	refs, err := g.classify(ctx, n, o)
	if err != nil || refs == nil {
		return err
	}
	if o.remote != nil {
		// It may have changed since it was seen, and extension servers may ignore preconditions.
		links, ok, _, err := g.now(ctx, o.kind, o.namespace, o.object)
		if err != nil || !ok || links.UID != n.links.UID {
			return err
		}
		if !equality.Semantic.DeepEqual(links.Owners, n.links.Owners) {
			return errChanged
		}
	}
	switch {
	case len(refs.solid) > 0:
		// A reference to an owner that waits for its dependents is removed too, because the owner would wait
		// forever.
		return g.disown(ctx, n, o, append(refs.dangling, refs.waiting...)...)
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
		k := g.ownerKind(ref)
		if k == nil {
			return nil, fmt.Errorf("%w: %s %s", errUnknownKind, ref.APIVersion, ref.Kind)
		}
		if id.key != g.locate(ref, n.key) {
			g.graph.relink(n)
			return nil, fmt.Errorf("%w: it was not, or elsewhere", errUnknownKind) // look again
		}
		if k.namespaced && o.namespace == "" {
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
			refs.solid = append(refs.solid, ref.UID)
		case foreground:
			refs.waiting = append(refs.waiting, ref.UID)
		default:
			refs.dangling = append(refs.dangling, ref.UID)
		}
	}
	if len(refs.dangling)+len(refs.waiting) == 0 {
		return nil, nil
	}
	return &refs, nil
}

// ownerState returns the state of an owner, from the log or, if the log has not reported it, from where it is stored.
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
	o, ok := g.object(id.key)
	if !ok {
		return unknown, 0, errUnknownKind
	}
	links, ok, rev, err := g.now(ctx, o.kind, o.namespace, o.object)
	there := &node{links: links}
	switch {
	case err != nil:
		return unknown, 0, err
	case ok && o.remote != nil && links.UID == "":
		return alive, rev, nil // it cannot be told from another one of its name
	case !ok || links.UID != id.uid:
		return gone, rev, nil
	case there.foreground():
		return foreground, rev, nil
	}
	return alive, rev, nil
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
	if err := g.listed(); err != nil {
		return err
	}
	// The deletion of an owner in an extension server or another etcd may be known before a dependent that was created earlier. A
	// dependent that is not released would be deleted for lack of an owner.
	if err := g.Store.Fresh(ctx); err != nil {
		return err
	}
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
				err := g.disown(ctx, d, of, n.links.UID)
				if missing(of, err) {
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
