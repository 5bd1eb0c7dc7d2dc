package store

import (
	"context"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// WatchOptions say which events a Watcher is given.
type WatchOptions struct {
	// After is the revision after which to begin.
	After int64
	// Prefix of the keys: "" for all, "namespace/" for a namespace, or one
	// object's whole key with Exact.
	Prefix string
	Exact  bool
	// Trigger restricts wake-ups to events whose object has (or had) this
	// value in the kind's Trigger field. The watcher may still be given
	// others and must select for itself.
	Trigger string
}

// Watcher delivers the events of one view after some revision, in order. It
// holds a place in the view's window, not a queue of its own: however many
// watchers there are, an event is kept once. One that falls out of the window
// is fed from etcd's history until it is in it again. A Watcher is used by one
// goroutine; the ctx of its Polls must end for it to let go of everything.
type Watcher struct {
	view *View
	opts WatchOptions
	// rev is the revision up to which everything was delivered.
	rev int64
	// history feeds a watcher that is behind the window.
	history *history

	wake chan struct{} // a token: there is something to look at

	// Guarded by view.mu:
	group   string // the wake-up group it is in
	pending bool   // events from next on have not been looked at
	next    uint64
}

// Watch begins a watcher. That o.After is compacted is for Poll to find out.
func (v *View) Watch(ctx context.Context, o WatchOptions) (*Watcher, error) {
	for {
		if err := v.ready(ctx); err != nil {
			if errors.Is(err, errReset) {
				continue
			}
			return nil, err
		}
		w := &Watcher{view: v, opts: o, rev: o.After, wake: make(chan struct{}, 1)}
		v.mu.Lock()
		if v.state != loaded {
			v.mu.Unlock()
			continue
		}
		w.group = groupOf(o)
		v.watchers.add(w)
		w.place()
		v.mu.Unlock()
		return w, nil
	}
}

// behind is a sequence number that no window has.
const behind = 0

// place finds the watcher's position in the window. View.mu is held.
func (w *Watcher) place() {
	win := &w.view.window
	w.pending = true
	w.next = win.after(w.rev)
	if w.rev < win.start || w.view.state != loaded {
		w.next = behind
	}
	w.signal()
}

func (w *Watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Close ends the watcher.
func (w *Watcher) Close() {
	w.view.mu.Lock()
	defer w.view.mu.Unlock()
	w.view.watchers.remove(w)
}

// Rev is the revision up to which the watcher has delivered everything.
func (w *Watcher) Rev() int64 { return w.rev }

// Ready is readable when Poll may have something. Ask anew after each Poll.
func (w *Watcher) Ready() <-chan struct{} {
	if w.history != nil {
		return w.history.ready
	}
	return w.wake
}

// Poll returns the events that have come since the last call, which may be
// none; it does not block. Rev then says how far the watcher is. After an
// error the watcher is of no more use.
func (w *Watcher) Poll(ctx context.Context) ([]*Event, error) {
	if w.history != nil {
		return w.pollHistory(ctx)
	}
	passed := w.view.store.Revision()
	v := w.view
	v.mu.Lock()
	if !w.pending {
		w.rev = max(w.rev, passed, v.rev)
		v.mu.Unlock()
		return nil, nil
	}
	events, ok := v.window.since(w.next)
	if !ok || v.state != loaded {
		v.mu.Unlock()
		w.startHistory(ctx)
		return nil, nil
	}
	w.pending = false
	to := max(w.rev, passed, v.rev)
	v.mu.Unlock()

	out := events[:0:0]
	for _, e := range events {
		if w.wants(e) {
			out = append(out, e)
		}
	}
	w.rev = to
	return out, nil
}

func (w *Watcher) wants(e *Event) bool {
	if e.Rev <= w.opts.After {
		return false
	}
	if w.opts.Exact {
		return e.Key() == w.opts.Prefix
	}
	return strings.HasPrefix(e.Key(), w.opts.Prefix)
}

// history reads a stretch of etcd's past for one watcher: the events after
// its revision and up to where the view was when it began.
type history struct {
	ready  chan struct{}
	cancel context.CancelFunc
	out    chan historyBatch // closed at the end of the stretch
	end    int64
}

type historyBatch struct {
	events []*Event
	rev    int64
	err    error
}

func (w *Watcher) startHistory(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	h := &history{ready: make(chan struct{}, 1), cancel: cancel, out: make(chan historyBatch, 8)}
	w.history = h
	go h.run(ctx, w.view, w.opts, w.rev)
}

func (w *Watcher) pollHistory(ctx context.Context) ([]*Event, error) {
	h := w.history
	select {
	case b, ok := <-h.out:
		if ok && b.err == nil {
			w.rev = max(w.rev, b.rev)
			h.signal() // there may be more
			return b.events, nil
		}
		h.cancel()
		if ok {
			return nil, b.err
		}
		// The stretch is done; what came meanwhile is in the window, or needs
		// another stretch.
		w.rev = max(w.rev, h.end)
		w.history = nil
		if err := w.view.ready(ctx); err != nil && !errors.Is(err, errReset) {
			return nil, err
		}
		w.view.mu.Lock()
		w.place()
		w.view.mu.Unlock()
		return nil, nil
	default:
		return nil, nil
	}
}

func (h *history) signal() {
	select {
	case h.ready <- struct{}{}:
	default:
	}
}

func (h *history) send(ctx context.Context, b historyBatch) bool {
	select {
	case h.out <- b:
		h.signal()
		return true
	case <-ctx.Done():
		return false
	}
}

// run feeds h from etcd.
func (h *history) run(ctx context.Context, v *View, o WatchOptions, after int64) {
	defer h.signal()
	defer close(h.out)
	head, err := v.store.db.Head(ctx)
	if err != nil {
		h.send(ctx, historyBatch{err: err})
		return
	}
	h.end = head
	if after >= head {
		return
	}
	// A stream of its own: etcd tells how far a stream is only when all of
	// its watches have caught up.
	ctx = metadata.AppendToOutgoingContext(clientv3.WithRequireLeader(ctx), "kanzen-history", v.etcdPrefix+o.Prefix)
	opts := []clientv3.OpOption{clientv3.WithRev(after + 1), clientv3.WithPrevKV(), clientv3.WithCreatedNotify()}
	if !o.Exact {
		opts = append(opts, clientv3.WithPrefix())
	}
	for r := range v.store.db.Client.Watch(ctx, v.etcdPrefix+o.Prefix, opts...) {
		if err := r.Err(); err != nil {
			if errors.Is(err, rpctypes.ErrCompacted) {
				err = ErrCompacted
			}
			h.send(ctx, historyBatch{err: err})
			return
		}
		b := historyBatch{rev: after}
		for _, e := range r.Events {
			if e.Kv.ModRevision > head {
				break
			}
			b.events = append(b.events, v.pastEvent(ctx, e))
			b.rev = e.Kv.ModRevision
		}
		if len(b.events) > 0 && !h.send(ctx, b) {
			return
		}
		if r.IsProgressNotify() && r.Header.Revision >= head || b.rev >= head || len(r.Events) > len(b.events) {
			return
		}
		if err := v.store.db.Client.RequestProgress(ctx); err != nil {
			h.send(ctx, historyBatch{err: err})
			return
		}
	}
	if ctx.Err() == nil {
		h.send(ctx, historyBatch{err: errors.New("watch of etcd's history broke off")})
	}
}

// pastEvent makes the event of this view from one of etcd's history.
func (v *View) pastEvent(ctx context.Context, e *clientv3.Event) *Event {
	ev := &Event{Rev: e.Kv.ModRevision}
	if e.Type != clientv3.EventTypeDelete {
		ev.Item = v.item(ctx, e.Kv)
	}
	if e.PrevKv != nil {
		ev.Prev = v.item(ctx, e.PrevKv)
	} else if ev.Item == nil {
		// etcd has compacted what was there before the deletion.
		ev.Prev = &Item{Key: string(e.Kv.Key[len(v.etcdPrefix):]), Rev: ev.Rev, Err: ErrCompacted}
	}
	return ev
}
