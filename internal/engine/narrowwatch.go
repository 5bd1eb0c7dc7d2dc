package engine

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/request/scope"
	"github.com/kanzen-io/kanzen/internal/store"
)

// This file lets a narrowed watch follow what it is narrowed to. The client has, at the revision up to which it was sent events, the
// objects of that revision that are in the set. When the set is to become another one, what leaves it is deleted at that revision. Then
// events go on until the revision that changed the set, and there what comes into it is added, so that nothing is sent that was written,
// or was gone, before there was a right to see it. Before events up to a revision are sent, all rights given and taken up to it are
// reflected: nothing is sent that was written after the right was lost. And a client that comes back with a revision has what the rights
// of that revision allow, unless they have changed since, when it has to list again.

// followsNamespaces bounds the namespaces by whose events a watch is woken; one of more looks at all events.
const followsNamespaces = 512

// asksEvery is how often a watch without events asks an authorizer that does not tell of changes.
const asksEvery = 30 * time.Second

// narrowedWatch is the part of a watch that follows its set.
type narrowedWatch struct {
	*narrowing
	stream  *watchStream
	renamed *store.Watcher // of namespaces; nil: they do not matter
	ticker  clock.Ticker   // for rights that change unheard; nil: they do not
	latest  *narrowing     // made while many objects were sent; nil: nothing has changed meanwhile
	// goal is what the set is to become, at a revision not before since.
	goal  scope.Set
	since int64
	moved bool // the set has changed, and what came since is still to be sent
	owed  bool // a bookmark is, as the set has changed
}

// changes are what a watch waits for besides events; channels may be nil.
type changes struct {
	rights, namespaces <-chan struct{}
	time               <-chan time.Time
}

// narrow makes the set of a watch that begins at a revision, with its objects or without them.
func (s *watchStream) narrow(ctx context.Context, initial bool, after int64) (stop func(), err error) {
	w := &narrowedWatch{narrowing: s.sel.narrow, stream: s}
	if w.byNamespaces() && w.e.Namespaces().Store() != w.view.Store() {
		return nil, apierrors.NewBadRequest("namespaceSelector: a watch cannot follow namespaces that are kept in another etcd than " + w.R.Plural)
	}
	if err := w.reach(ctx, after); err != nil {
		return nil, err
	}
	if w.byRights() { // where rights are kept is known once they have been read
		if err := w.e.Rights.Follows(ctx, w.view.Store()); err != nil {
			return nil, err
		}
	}
	if w.set, err = w.make(ctx); err != nil {
		return nil, err
	}
	w.goal = w.set
	if !initial {
		if err := w.unchangedSince(ctx, after); err != nil {
			return nil, err
		}
	}
	if w.byNamespaces() {
		if w.renamed, err = w.e.Namespaces().Watch(ctx, store.WatchOptions{After: w.labelled}); err != nil {
			return nil, err
		}
	}
	if w.byRights() && !w.e.Rights.Steady() {
		w.ticker = w.e.Clock.NewTicker(asksEvery)
	}
	s.rev, s.narrowed = after, w
	return w.stop, nil
}

func (w *narrowedWatch) stop() {
	if w.renamed != nil {
		w.renamed.Close()
	}
	if w.ticker != nil {
		w.ticker.Stop()
	}
}

// unchangedSince returns an error if the set may be another one than that of a client that has seen everything up to a revision.
func (w *narrowedWatch) unchangedSince(ctx context.Context, rev int64) error {
	again := apierrors.NewResourceExpired("what you may see has changed since the resourceVersion; list again")
	if w.byRights() && w.e.Rights.Steady() {
		changed, err := w.e.Rights.ChangedAt(ctx)
		if err != nil {
			return err
		}
		if changed > rev {
			return again
		}
	}
	if w.selector == nil {
		return nil
	}
	of := w.e.Namespaces()
	events, ok, err := of.Since(ctx, rev)
	if err != nil {
		return err
	}
	if !ok {
		return again
	}
	for _, e := range events {
		was, is := false, false
		if e.Prev != nil {
			was, err = of.MatchLabels(e.Prev, *w.selector)
		}
		if err == nil && e.Item != nil {
			is, err = of.MatchLabels(e.Item, *w.selector)
		}
		if err != nil {
			return err
		}
		if was != is {
			return again
		}
	}
	return nil
}

// namespaces are those by whose events the watch is to be woken; nil: all.
func (w *narrowedWatch) namespaces() []string {
	if w == nil || !w.R.Namespaced || w.namespace != "" || !w.set.Everywhere.Empty() || len(w.set.In) > followsNamespaces {
		return nil
	}
	return append([]string{}, w.set.Namespaces()...)
}

// changed returns what to wait for. It is called before the set is looked at, so that no change is missed.
func (w *narrowedWatch) changed(ctx context.Context) (c changes) {
	if w == nil {
		return c
	}
	if w.byRights() {
		c.rights = w.e.Rights.Next(ctx)
	}
	if w.ticker != nil {
		c.time = w.ticker.C()
	}
	if !w.goal.Equal(w.set) {
		c.time = w.e.Clock.After(time.Millisecond) // events that are read from history are not there yet
	}
	if w.renamed != nil {
		c.namespaces = w.renamed.Ready()
	}
	return c
}

// owes reports, once, that the set has changed: the objects that were sent then have older revisions than the client has seen.
func (w *narrowedWatch) owes() bool {
	if w == nil || !w.owed {
		return false
	}
	w.owed = false
	return true
}

// prepare makes the set anew if it may have changed, and waits until events up to that can be had.
func (w *narrowedWatch) prepare(ctx context.Context) error {
	if w == nil {
		return nil
	}
	stale, err := w.stale(ctx)
	if err != nil || !stale {
		return err
	}
	w.latest = nil
	if w.goal, err = w.make(ctx); err != nil || w.goal.Equal(w.set) {
		return err
	}
	w.since = w.labelled
	if w.byRights() {
		changed, err := w.e.Rights.ChangedAt(ctx)
		if err != nil {
			return err
		}
		w.since = max(w.since, changed)
	}
	return w.view.Store().WaitFor(ctx, w.since)
}

// follow returns the events to send, of those that came after the revision that the client has. If the set is to be another one, it sends
// what that changes.
func (w *narrowedWatch) follow(ctx context.Context, events []*store.Event) ([]*store.Event, error) {
	s, rev := w.stream, w.stream.events.Rev()
	if err := w.reach(ctx, rev); err != nil {
		return nil, err
	}
	if err := w.prepare(ctx); err != nil {
		return nil, err
	}
	if w.goal.Equal(w.set) {
		w.moved, w.owed = false, w.owed || w.moved
		return events, nil
	}
	kept := w.set.And(w.goal)
	if err := w.move(ctx, kept); err != nil {
		return nil, err
	}
	if rev < w.since {
		return events, nil // what is added is added later
	}
	s.rev = rev
	if err := s.sendEvents(ctx, events); err != nil {
		return nil, err
	}
	if err := w.move(ctx, w.goal); err != nil {
		return nil, err
	}
	w.moved = true
	return nil, s.open(ctx, rev)
}

// move lets the set be another one, and sends what that means for a client that has come to the revision of the stream.
func (w *narrowedWatch) move(ctx context.Context, to scope.Set) error {
	s, was := w.stream, w.set
	differing := was.Differing(to)
	if w.set = to; !differing.All() && differing.Everywhere.Empty() && len(differing.In) == 0 {
		return nil
	}
	snap, err := w.view.SnapshotAt(ctx, s.rev)
	if err != nil {
		return err
	}
	var failed error
	err = w.ascend(ctx, snap, differing, store.Range{Prefix: s.keyPrefix()}, func(i *store.Item) bool {
		had, has := was.Has(i.Namespace(), i.Name()), to.Has(i.Namespace(), i.Name())
		if had == has || s.exact() && i.Key != s.keyPrefix() || i.Err != nil {
			return true
		}
		var ok bool
		if ok, failed = s.sel.otherwise(i); failed != nil || !ok {
			return failed == nil
		}
		if had {
			failed = s.frame(ctx, watch.Deleted, i.Gone(s.rev))
		} else if failed = w.still(ctx, i); failed == nil {
			failed = s.frame(ctx, watch.Added, i)
		}
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	return s.flush()
}

// still returns an error if an item that is about to be sent, one of many, is no longer in the set. What was sent before it may not be
// either, so the client begins again.
func (w *narrowedWatch) still(ctx context.Context, i *store.Item) error {
	if w == nil {
		return nil
	}
	newest := w.latest
	if newest == nil {
		newest = w.narrowing
	}
	stale, err := newest.stale(ctx)
	if err != nil {
		return err
	}
	if stale {
		copied := *newest
		w.latest = &copied
		if w.latest.set, err = w.latest.make(ctx); err != nil {
			return err
		}
	}
	if w.latest != nil && !w.latest.has(i) {
		return apierrors.NewResourceExpired("what you may see has changed while it was sent; list again")
	}
	return nil
}
