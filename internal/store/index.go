package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
)

// Index gives the objects of a view as values of type T, a pointer or an
// interface. The stored bytes are decoded once for each revision. All readers
// share the value and must not change it.
type Index[T any] struct {
	view    *View
	form    any
	decode  func(context.Context, *Item) (T, error)
	matters func(was, now *Item) bool
}

// NewIndex returns the objects of a view as decode makes them, whose context is
// that of the reader. Form is comparable and identifies decode: indexes with the
// same form share their values.
func NewIndex[T any](v *View, form any, decode func(context.Context, *Item) (T, error)) *Index[T] {
	return &Index[T]{view: v, form: form, decode: decode}
}

// Where returns an index whose Follow leaves out changes that do not matter.
// They cost no decoding.
func (x *Index[T]) Where(matters func(was, now *Item) bool) *Index[T] {
	some := *x
	some.matters = matters
	return &some
}

// Of returns the value of an item, and keeps it with the item.
func (x *Index[T]) Of(ctx context.Context, i *Item) (T, error) {
	obj, err := i.Decoded(x.view.store.Encodings, x.form, func(i *Item) (any, error) { return x.decode(ctx, i) })
	if err != nil {
		var none T
		return none, err
	}
	return x.typed(i, obj)
}

// peek is Of, but does not keep the value: it is for readers that see each
// revision once.
func (x *Index[T]) peek(ctx context.Context, i *Item) (T, error) {
	if e := i.encoded(x.form); e != nil {
		return x.typed(i, e.object)
	}
	return x.decode(ctx, i)
}

func (x *Index[T]) typed(i *Item, obj any) (T, error) {
	t, ok := obj.(T)
	if !ok {
		return t, fmt.Errorf("%s%s is a %T", x.view.kind.Prefix, i.Key, obj)
	}
	return t, nil
}

// Get returns an object as this server last saw it, or ErrNotFound.
func (x *Index[T]) Get(ctx context.Context, key string) (T, error) {
	i, err := x.view.seen(ctx, key)
	if err != nil {
		var none T
		return none, err
	}
	return x.Of(ctx, i)
}

// Peek is Get for who seldom needs the object: it is not kept with the item.
func (x *Index[T]) Peek(ctx context.Context, key string) (T, error) {
	i, err := x.view.seen(ctx, key)
	if err != nil {
		var none T
		return none, err
	}
	return x.peek(ctx, i)
}

// Objects returns the objects whose keys begin with prefix as this server last
// saw them, in the order of their keys. One that cannot be decoded is an error.
func (x *Index[T]) Objects(ctx context.Context, prefix string) ([]T, error) {
	snap, err := x.view.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	var out []T
	var failed error
	err = snap.Ascend(ctx, Range{Prefix: prefix}, func(i *Item) bool {
		var obj T
		if obj, failed = x.Of(ctx, i); failed == nil {
			out = append(out, obj)
		}
		return failed == nil
	})
	return out, errors.Join(failed, err)
}

// Changed is the revision of the newest change: while it stays the same, so do
// the objects.
func (x *Index[T]) Changed(ctx context.Context) (int64, error) { return x.view.Changed(ctx) }

// Change is a change of one object.
type Change[T any] struct {
	// Key is "namespace/name" or "name".
	Key string
	// Now is the object; the zero T if it is gone or cannot be decoded.
	Now T
	// Err says why the object cannot be decoded.
	Err error
	// Gone says that the object was deleted.
	Gone bool
	// Rev is the revision of the change; of what existed, or was deleted, before
	// anything was followed it is a later one.
	Rev int64

	index *Index[T]
	prev  *Item
}

// Was returns the object before the change, and whether there was one that can
// be decoded.
func (c Change[T]) Was(ctx context.Context) (T, bool) {
	if c.prev == nil {
		var none T
		return none, false
	}
	obj, err := c.index.peek(ctx, c.prev)
	return obj, err == nil
}

// Added says that the object was not known before.
func (c Change[T]) Added() bool { return c.prev == nil }

// Namespace is the object's namespace; "" if it has none.
func (c Change[T]) Namespace() string { return namespaceOf(c.Key) }

// Name is the object's name.
func (c Change[T]) Name() string { return c.Key[strings.LastIndexByte(c.Key, '/')+1:] }

// Follow calls each for every existing object, and from then on for every
// change, until ctx ends or the view is dropped. There is one call at a time.
// After lost history or a panic of each, it begins anew: it reports
// all existing objects again, and objects that were deleted meanwhile as gone.
// Caught (optional) is called when everything up to a revision was reported.
func (x *Index[T]) Follow(ctx context.Context, each func(Change[T]), caught func(rev int64)) {
	ended := make(chan struct{})
	x.Join(ctx, func() { close(ended) }, each, caught)
	<-ended
}

// Join is Follow that returns at once, and calls ended when Follow would return.
func (x *Index[T]) Join(ctx context.Context, ended func(), each func(Change[T]), caught func(rev int64)) {
	if caught == nil {
		caught = func(int64) {}
	}
	f := &following[T]{index: x, each: each, caught: caught, known: map[string]*Item{}}
	x.view.follow(ctx, f, ended)
}

// following is one call of Follow.
type following[T any] struct {
	index    *Index[T]
	each     func(Change[T])
	caught   func(rev int64)
	known    map[string]*Item // what was reported, by key
	watcher  *Watcher         // nil: it is to begin, or to begin anew
	told     int64            // the revision up to which everything was reported
	healings int              // of the view, when it began
}

// run is part of reporter.
func (f *following[T]) run(ctx context.Context, wake func()) (err error) {
	if f.watcher == nil {
		f.healings = f.index.view.healings()
		if f.watcher, err = f.watch(ctx, wake); err != nil {
			return err
		}
		f.told = f.watcher.Rev()
	}
	for more := true; more && ctx.Err() == nil; {
		if more, err = f.poll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close is part of reporter.
func (f *following[T]) close() {
	if f.watcher != nil {
		f.watcher.Close()
		f.watcher = nil
	}
}

// watch reports everything in the view, and returns a watcher of what changes afterwards.
func (f *following[T]) watch(ctx context.Context, wake func()) (*Watcher, error) {
	rev, err := f.begin(ctx)
	if err != nil {
		return nil, err
	}
	f.caught(rev)
	return f.index.view.Watch(ctx, WatchOptions{After: rev, Wake: wake})
}

// poll reports changes, and says whether there may be more.
func (f *following[T]) poll(ctx context.Context) (more bool, _ error) {
	events, err := f.watcher.Poll(ctx)
	if err != nil {
		return false, err
	}
	if f.index.view.healings() != f.healings {
		return false, ErrCompacted // not all there is was told, as after that
	}
	for _, e := range events {
		f.event(ctx, e)
	}
	// Without an event too: a view that was loaded again is at a later revision, and somebody may wait for that.
	if rev := f.watcher.Rev(); rev > f.told {
		f.told = rev
		f.caught(rev)
	}
	return len(events) > 0, nil
}

// event reports one change.
func (f *following[T]) event(ctx context.Context, e *Event) {
	if e.Item == nil {
		f.gone(e.Prev.Key, e.Rev)
		return
	}
	if prev := f.known[e.Item.Key]; prev != nil && f.index.matters != nil && !f.index.matters(prev, e.Item) {
		f.known[e.Item.Key] = e.Item
		return
	}
	now, err := f.index.peek(ctx, e.Item)
	f.tell(ctx, e.Item, e.Rev, now, err)
}

func (f *following[T]) gone(key string, rev int64) {
	prev := f.known[key]
	delete(f.known, key)
	f.each(Change[T]{Key: key, Gone: true, Rev: rev, index: f.index, prev: prev})
}

func (f *following[T]) tell(ctx context.Context, i *Item, rev int64, now T, err error) {
	if err != nil && ctx.Err() != nil {
		return // it was not read because the follower stops
	}
	prev := f.known[i.Key]
	f.known[i.Key] = i
	f.each(Change[T]{Key: i.Key, Now: now, Err: err, Rev: rev, index: f.index, prev: prev})
}

// together is how many items are decoded in parallel at a time: thousands of
// objects do not delay the start, and only few decoded ones are in memory at
// once.
const together = 512

// begin reports everything in the view, and returns its revision.
func (f *following[T]) begin(ctx context.Context) (int64, error) {
	snap, err := f.index.view.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	var there map[string]bool // nil: nothing was reported before that may be gone
	if len(f.known) > 0 {
		there = make(map[string]bool, len(f.known))
	}
	var batch []*Item
	err = snap.Ascend(ctx, Range{}, func(i *Item) bool {
		if there != nil {
			there[i.Key] = true
		}
		if batch = append(batch, i); len(batch) == together {
			f.all(ctx, batch, snap.Rev)
			batch = batch[:0]
		}
		return true
	})
	if err != nil {
		return 0, err
	}
	f.all(ctx, batch, snap.Rev)
	if there != nil {
		for key := range f.known {
			if !there[key] {
				f.gone(key, snap.Rev)
			}
		}
	}
	return snap.Rev, nil
}

// all decodes items of a revision in parallel and reports them.
func (f *following[T]) all(ctx context.Context, items []*Item, rev int64) {
	type decoded struct {
		obj T
		err error
	}
	out := make([]decoded, len(items))
	workers := max(1, min(runtime.GOMAXPROCS(0), len(items)/8))
	var wg sync.WaitGroup
	for first := range workers {
		wg.Go(func() {
			for n := first; n < len(items); n += workers {
				out[n].err = f.index.view.store.guard.Call("decoding "+f.index.view.kind.Prefix, func() (err error) {
					out[n].obj, err = f.index.peek(ctx, items[n])
					return err
				})
			}
		})
	}
	wg.Wait()
	for n, i := range items {
		f.tell(ctx, i, rev, out[n].obj, out[n].err)
	}
}
