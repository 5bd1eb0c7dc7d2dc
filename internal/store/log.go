package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// follower is the state of the log: how far it is, and who waits for more.
type follower struct {
	rev atomic.Int64 // all events up to it are in the views

	ask chan struct{} // a token: somebody waits, etcd is to be asked how far it is

	mu      sync.Mutex
	waiters map[chan struct{}]int64 // closed when rev reaches the value
}

func (f *follower) init() {
	f.ask = make(chan struct{}, 1)
	f.waiters = map[chan struct{}]int64{}
}

// advance says that all events up to rev are in the views.
func (f *follower) advance(rev int64) {
	if rev <= f.rev.Load() {
		return
	}
	f.rev.Store(rev)
	f.mu.Lock()
	defer f.mu.Unlock()
	for c, want := range f.waiters {
		if want <= rev {
			close(c)
			delete(f.waiters, c)
		}
	}
}

// progressAfter is how long a reader waits for the log by itself before etcd
// is asked how far it is. Revisions of keys outside of the prefix pass by the
// log, so it may be there already without knowing.
const progressAfter = 2 * time.Millisecond

// wait returns once the log has passed rev. It gives up when ctx ends or
// running, the context of those who move the log.
func (f *follower) wait(ctx, running context.Context, rev int64) error {
	if f.rev.Load() >= rev {
		return nil
	}
	c := make(chan struct{})
	f.mu.Lock()
	if f.rev.Load() >= rev {
		f.mu.Unlock()
		return nil
	}
	f.waiters[c] = rev
	f.mu.Unlock()
	pause := progressAfter
	t := time.NewTimer(pause)
	defer t.Stop()
	for {
		select {
		case <-c:
			return nil
		case <-t.C:
			select {
			case f.ask <- struct{}{}:
			default: // others have asked
			}
			pause = min(2*pause, 250*time.Millisecond)
			t.Reset(pause)
		case <-ctx.Done():
			f.leave(c)
			return ctx.Err()
		case <-running.Done():
			f.leave(c)
			return fmt.Errorf("the store has stopped: %w", running.Err())
		}
	}
}

func (f *follower) leave(c chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiters, c)
}

// askProgress asks etcd how far the log is when somebody waits for it: once
// for all who do.
func (s *Store) askProgress(ctx context.Context) {
	for {
		select {
		case <-s.follow.ask:
		case <-ctx.Done():
			return
		}
		// The same metadata as the log's watch has: that is how the client
		// finds its stream. What fails is asked again by whoever still waits.
		_ = s.db.Client.RequestProgress(clientv3.WithRequireLeader(ctx))
	}
}

// retryAfter is the pause before a broken watch is begun again.
const retryAfter = 100 * time.Millisecond

// run follows etcd until ctx ends, beginning again where a watch broke off.
func (s *Store) run(ctx context.Context) error {
	next := int64(0) // the first revision not yet seen; 0: begin at the head
	for {
		seen, err := s.runWatch(ctx, next)
		if ctx.Err() != nil {
			return nil
		}
		next = seen
		switch {
		case errors.Is(err, ErrCompacted):
			// What happened in between cannot be known any more: every view
			// starts over, and its watchers are told to.
			s.log.Error("the log fell behind etcd's compaction; all views start over")
			next = 0
		case err != nil:
			s.log.Warn("following etcd broke off, beginning again", "error", err)
		}
		select {
		case <-s.clock.After(retryAfter):
		case <-ctx.Done():
			return nil
		}
	}
}

// runWatch follows etcd from revision next on until the watch breaks, and
// returns the revision to go on from.
func (s *Store) runWatch(ctx context.Context, next int64) (int64, error) {
	if next == 0 {
		head, err := s.db.Head(ctx)
		if err != nil {
			return 0, fmt.Errorf("read the newest revision: %w", err)
		}
		// What views hold from before misses what came between their load and
		// head. A load that begins from here on reads head or later.
		s.resetViews()
		s.follow.advance(head)
		next = head + 1
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := s.db.Client.Watch(clientv3.WithRequireLeader(ctx), s.prefix,
		clientv3.WithPrefix(), clientv3.WithRev(next))
	for r := range watch {
		if err := r.Err(); err != nil {
			if errors.Is(err, rpctypes.ErrCompacted) {
				err = ErrCompacted
			}
			return next, err
		}
		s.apply(ctx, r.Events)
		// The header of a progress notification says that everything up to
		// its revision was sent; that of an event batch may run ahead.
		rev := r.Header.Revision
		if n := len(r.Events); n > 0 {
			rev = r.Events[n-1].Kv.ModRevision
		} else if !r.IsProgressNotify() {
			continue
		}
		next = max(next, rev+1)
		s.follow.advance(rev)
	}
	return next, errors.New("watch channel closed")
}

// apply hands events to the views they belong to, in order; those that follow
// each other in one view together, so that a reader sees a transaction whole.
func (s *Store) apply(ctx context.Context, events []*clientv3.Event) {
	if !slices.IsSortedFunc(events, compareEvents) {
		// A transaction went to and fro between views.
		slices.SortStableFunc(events, compareEvents)
	}
	var of *View
	from := 0
	for n, e := range events {
		v := s.view(e.Kv.Key)
		if v == of {
			continue
		}
		if of != nil {
			of.apply(ctx, events[from:n])
		}
		of, from = v, n
	}
	if of != nil {
		of.apply(ctx, events[from:])
	}
}

func compareEvents(a, b *clientv3.Event) int {
	if c := cmp.Compare(a.Kv.ModRevision, b.Kv.ModRevision); c != 0 {
		return c
	}
	return bytes.Compare(a.Kv.Key, b.Kv.Key)
}

func (s *Store) resetViews() {
	for _, v := range s.allViews() {
		v.reset()
	}
}

func (s *Store) allViews() []*View {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Values(s.views))
}

// cutWindows lets go, now and then, of the past that views keep which have
// become quiet.
func (s *Store) cutWindows(ctx context.Context) {
	for {
		select {
		case now := <-s.clock.After(windowAge):
			for _, v := range s.allViews() {
				v.mu.Lock()
				v.window.cut(now, 0)
				v.mu.Unlock()
				v.old.cut()
			}
		case <-ctx.Done():
			return
		}
	}
}

// item decodes an etcd value of this view.
func (v *View) item(ctx context.Context, kv *mvccpb.KeyValue) *Item {
	i := &Item{Key: string(kv.Key[len(v.etcdPrefix):]), Rev: kv.ModRevision, Value: kv.Value}
	if t := v.kind.Transformer; t != nil {
		i.Value, i.Stale, i.Err = t.FromStorage(ctx, string(kv.Key), kv.Value)
	}
	return i
}
