package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/kanzen-io/kanzen/internal/base/logs"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// follower is the state of the log: the revision it has reached, and the
// readers that wait for a later one.
type follower struct {
	rev atomic.Int64 // all events up to it are in the views
	// applying is held while events come into the views and rev follows.
	applying sync.Mutex

	ask chan struct{} // a token: a reader waits, etcd is to be asked for progress

	mu      sync.Mutex
	waiters map[chan struct{}]int64 // closed when rev reaches the value
}

func (f *follower) init() {
	f.ask = make(chan struct{}, 1)
	f.waiters = map[chan struct{}]int64{}
}

// advance records that all events up to rev are in the views.
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

// progressAfter is how long a reader waits for the log before etcd is asked for
// progress. The log gets no events of keys outside of the prefix, so it may
// have reached the revision already without knowing it.
const progressAfter = 2 * time.Millisecond

// wait returns once the log has passed rev. It gives up when ctx ends, or
// running, the context of the goroutine that follows the log.
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
			default: // another reader has asked
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

// retryAfter is the pause before a broken watch is started again.
const retryAfter = 100 * time.Millisecond

// beginning is the revision after which the store follows the log.
type beginning struct {
	rev    atomic.Pointer[int64] // nil: not known
	asking *semaphore.Weighted   // one at a time asks for it
}

func (b *beginning) init() { b.asking = semaphore.NewWeighted(1) }

// begin returns the beginning: the head when it is first asked for. Views are loaded after that, so that they miss nothing, also while the log
// is not followed yet. Whoever waits for another's answer goes when its own ctx ends: the log may not answer for long.
func (s *Store) begin(ctx context.Context) (int64, error) {
	b := &s.beginning
	if rev := b.rev.Load(); rev != nil {
		return *rev, nil
	}
	if err := b.asking.Acquire(ctx, 1); err != nil {
		return 0, fmt.Errorf("wait for the newest revision: %w", err)
	}
	defer b.asking.Release(1)
	if rev := b.rev.Load(); rev != nil {
		return *rev, nil
	}
	head, err := s.db.Head(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the newest revision: %w", err)
	}
	b.rev.Store(&head)
	return head, nil
}

// beginAnew forgets the beginning, and all views, which may miss events of before the next one.
func (s *Store) beginAnew() {
	s.beginning.rev.Store(nil)
	s.resetViews()
}

// run follows etcd until ctx ends. It starts a new watch when one breaks off.
func (s *Store) run(ctx context.Context) error {
	next := int64(0) // the first revision not yet seen; 0: that after the beginning
	seldom := logs.NewSeldom(s.log, s.clock, time.Minute)
	for {
		seen, err := s.runWatch(ctx, next)
		if ctx.Err() != nil {
			return nil
		}
		next = seen
		switch {
		case errors.Is(err, ErrCompacted):
			// The events in between are lost: every view starts over, and its
			// watchers are told.
			s.log.Error("the log fell behind etcd's compaction; all views start over")
			s.beginAnew()
			next = 0
		case err != nil:
			seldom.Warn("broke off", "following etcd broke off, beginning again", "error", err)
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
		begun, err := s.begin(ctx)
		if err != nil {
			return 0, err
		}
		s.lost()
		s.follow.advance(begun)
		next = begun + 1
	}
	err := s.db.Watch(ctx, kv.Watch{Key: s.prefix, Prefix: true, From: next, Ask: s.follow.ask}, func(events []kv.Event, rev int64) error {
		s.follow.applying.Lock()
		defer s.follow.applying.Unlock()
		s.applyInTime(ctx, events)
		next = max(next, rev+1)
		s.follow.advance(rev)
		return nil
	})
	return next, err
}

// decryptPatience bounds how long a batch of events may wait for the keys of its values. What cannot be decrypted by then is
// broken until it is healed: one kind's keys must not hold up all others.
const decryptPatience = 250 * time.Millisecond

func (s *Store) applyInTime(ctx context.Context, events []kv.Event) {
	ctx, cancel := context.WithTimeout(ctx, decryptPatience)
	defer cancel()
	s.apply(ctx, events)
}

// apply passes events to their views, in order. Consecutive events of one view
// are passed together, so that a reader sees a transaction whole.
func (s *Store) apply(ctx context.Context, events []kv.Event) {
	if !slices.IsSortedFunc(events, kv.CompareEvents) {
		// Events of a transaction alternate between views.
		slices.SortStableFunc(events, kv.CompareEvents)
	}
	var of *View
	from := 0
	for n := range events {
		v := s.view(events[n].Key)
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
	s.tell(ctx, events)
}

func (s *Store) resetViews() {
	for _, v := range s.allViews() {
		v.reset()
	}
}

func (s *Store) allViews() []*View {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.AppendSeq(make([]*View, 0, len(s.views)), maps.Values(s.views))
}

// cutWindows cuts, from time to time, the windows of views that get no events
// any more, and drops encodings that nobody asks for.
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
			s.Encodings.dropUnused(now)
		case <-ctx.Done():
			return
		}
	}
}

// item decodes an etcd value of this view.
func (v *View) item(ctx context.Context, k kv.KeyValue) *Item {
	i := &Item{Key: string(k.Key[len(v.etcdPrefix):]), Rev: k.ModRevision}
	value := k.Value
	if t := v.kind.Transformer; t != nil {
		if value, i.Stale, i.Err = t.FromStorage(ctx, string(k.Key), k.Value); i.Err != nil {
			return i
		}
	}
	i.set(value)
	return i
}
