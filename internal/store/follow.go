package store

import (
	"context"
	"errors"
)

// Follower is told what a view holds: what in-process consumers (the
// authorizer, admission, controllers) build their indexes from. Its methods
// are called by one goroutine.
type Follower interface {
	// Reset begins anew with everything there is.
	Reset(items []*Item)
	// Change applies one event after it.
	Change(e *Event)
	// Caught says that everything up to revision rev was told.
	Caught(rev int64)
}

// Follow tells f of everything in the view until ctx ends or the view is
// dropped, beginning anew where history is lost and where f panics.
func (v *View) Follow(ctx context.Context, f Follower) error {
	for ctx.Err() == nil {
		err := v.store.guard.Call("following "+v.kind.Prefix, func() error { return v.followOnce(ctx, f) })
		if ctx.Err() != nil || errors.Is(err, ErrForgotten) {
			return nil
		}
		if !errors.Is(err, ErrCompacted) {
			v.store.log.Warn("following a view broke off", "view", v.kind.Prefix, "error", err)
			select {
			case <-v.store.clock.After(retryAfter):
			case <-ctx.Done():
			}
		}
	}
	return nil
}

func (v *View) followOnce(ctx context.Context, f Follower) error {
	snap, err := v.Snapshot(ctx)
	if err != nil {
		return err
	}
	var items []*Item
	if err := snap.Ascend(ctx, Range{}, func(i *Item) bool {
		items = append(items, i)
		return true
	}); err != nil {
		return err
	}
	f.Reset(items)
	f.Caught(snap.Rev)
	w, err := v.Watch(ctx, WatchOptions{After: snap.Rev})
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		events, err := w.Poll(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			f.Change(e)
		}
		if len(events) > 0 {
			f.Caught(w.Rev())
			continue
		}
		select {
		case <-w.Ready():
		case <-ctx.Done():
			return nil
		}
	}
}

// Follow is a Follower of funcs, for who needs no index: Changed is called with
// each item that there is and each that comes, Gone (optional) with the last
// state of each that goes while it is followed.
type Follow struct {
	Changed, Gone func(i *Item)
}

// Reset is part of Follower.
func (f Follow) Reset(items []*Item) {
	for _, i := range items {
		f.Changed(i)
	}
}

// Change is part of Follower.
func (f Follow) Change(e *Event) {
	if e.Item != nil {
		f.Changed(e.Item)
	} else if f.Gone != nil {
		f.Gone(e.Prev)
	}
}

// Caught is part of Follower.
func (f Follow) Caught(int64) {}
