package engine

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Proposal is a write of the server itself, as part of another one that was authorized and admitted. Several are carried out
// together or not at all.
type Proposal struct {
	write  *write
	decide decide
}

// Edit proposes to change a stored object by a func, which may be called several times, each time with a copy of the object stored
// then. Its error is that of the write.
func (ep *Endpoint) Edit(which request.Which, change func(obj Object) error) Proposal {
	w := ep.local(which.Namespace(), which.Name())
	w.which = which
	return Proposal{w, func(ctx context.Context, found *store.Item) (*decision, error) {
		if found == nil {
			return nil, store.ErrNotFound
		}
		obj, err := ep.Decode(ctx, found)
		if err != nil {
			return nil, err
		}
		if err := w.meant(obj); err != nil {
			return nil, err
		}
		var old Object
		if w.recorded(ctx) { // nobody else asks what it was
			old = obj.DeepCopyObject().(Object)
		}
		if err := change(obj); err != nil {
			return nil, err
		}
		return w.putting(ctx, found, obj, old)
	}}
}

// Removal proposes to delete an object, or to begin its deletion, as a request would.
func (ep *Endpoint) Removal(which request.Which, options *metav1.DeleteOptions) Proposal {
	w := ep.local(which.Namespace(), which.Name())
	w.which = which
	options = which.Delete(options)
	return Proposal{w, func(ctx context.Context, found *store.Item) (*decision, error) {
		return w.decideRemoval(ctx, found, options.DeepCopy())
	}}
}

// Together carries out proposals about different objects of any kinds in one transaction: all or none. What others have changed
// meanwhile is decided again. The first refusal is the refusal of all. On a dry run nothing is stored.
func Together(ctx context.Context, dryRun bool, proposals ...Proposal) error {
	found := make([]*store.Item, len(proposals))
	decided := make([]*decision, len(proposals))
	for n, p := range proposals {
		w := p.write
		if err := w.which.Err(); err != nil {
			return apierrors.NewInternalError(err)
		}
		w.dryRun = dryRun
		var err error
		if found[n], err = orNil(w.view.Latest(ctx, w.key(w.name))); err != nil {
			return w.storeError(err, w.name)
		}
	}
	for {
		for n, p := range proposals {
			if decided[n] != nil {
				continue
			}
			var err error
			if decided[n], err = p.decide(ctx, found[n]); err != nil {
				return p.write.storeError(err, p.write.name)
			}
		}
		stored, err := storeTogether(ctx, dryRun, proposals, decided)
		var conflicts *store.ConflictsError
		switch {
		case err == nil:
			for n, p := range proposals {
				if !dryRun {
					p.write.awaitSeen(ctx)
					p.write.follow(ctx, decided[n], stored[n])
				}
			}
			return nil
		case ctx.Err() != nil || !errors.As(err, &conflicts):
			return proposals[0].write.storeError(err, proposals[0].write.name)
		}
		for n, c := range conflicts.Of {
			if c != nil {
				found[n], decided[n] = c.Current, nil
			}
		}
	}
}

// storeTogether carries out decisions. Those that change nothing are what the others rely on.
func storeTogether(ctx context.Context, dryRun bool, proposals []Proposal, decided []*decision) ([]*store.Item, error) {
	ops, changes := make([]store.Op, len(decided)), false
	for n, d := range decided {
		ops[n] = store.Op{View: proposals[n].write.view, Prev: d.found, Key: d.key, Do: d.act.stored(), Write: d.put}
		changes = changes || d.act != actKeep
	}
	if dryRun || !changes {
		return make([]*store.Item, len(ops)), nil
	}
	return store.Commit(ctx, ops)
}

// stored is what the store does.
func (a act) stored() store.Action {
	switch a {
	case actPut:
		return store.Put
	case actRemove:
		return store.Remove
	}
	return store.Expect
}
