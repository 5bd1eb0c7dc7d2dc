package store

import (
	"context"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// This file is about resources that lie in another etcd than the rest. Each etcd has a log and revisions of its own, and so a
// Store of its own: a part of the main one. A view is of one part. What one view answers is consistent as of a revision of
// its part; revisions of different parts say nothing of each other.

// Part is where the objects of some resources lie.
type Part struct {
	DB DB
	// Prefixes of their keys, below the store's, with a slash at the end.
	Prefixes []string
}

func (s *Store) addParts(parts []Part, o Options) {
	o.Parts = nil
	for _, p := range parts {
		part := New(p.DB, o)
		part.Encodings = s.Encodings
		part.main, part.blocks = s, s.blocks
		s.parts = append(s.parts, part)
		for _, prefix := range p.Prefixes {
			s.elsewhere[prefix] = part
		}
	}
}

// All returns the stores of all etcds, the main one first.
func (s *Store) All() []*Store { return append([]*Store{s}, s.parts...) }

// At returns the store of the objects at a key below the prefix.
func (s *Store) At(key string) *Store {
	if len(s.elsewhere) == 0 {
		return s
	}
	at := 0
	for range 2 { // a prefix has one segment or two
		n := strings.IndexByte(key[at:], '/')
		if n < 0 {
			break
		}
		at += n + 1
		if p := s.elsewhere[key[:at]]; p != nil {
			return p
		}
	}
	return s
}

// here says that a key belongs to this store: the etcd of another one may have keys that were written before.
func (s *Store) here(key string) bool {
	if s.main != nil {
		return s.main.At(key) == s
	}
	return s.At(key) == s
}

// holds says that a guard can hold a write back: if its mark is in the same etcd.
func (s *Store) holds(g Guard) bool { return s.here(g.Mark) }

// Store returns the store that the view belongs to.
func (v *View) Store() *Store { return v.store }

// eachPart calls f for all stores at the same time, and returns the first error.
func (s *Store) eachPart(ctx context.Context, f func(ctx context.Context, s *Store) error) error {
	if len(s.parts) == 0 {
		return f(ctx, s)
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, each := range s.All() {
		g.Go(func() error { return s.guard.Call("a store", func() error { return f(ctx, each) }) })
	}
	return g.Wait()
}

// Run follows all etcds until ctx ends; it is called once. Reads and writes need it to be running. When it returns, no
// goroutine of the store is running.
func (s *Store) Run(ctx context.Context) error {
	return s.eachPart(ctx, func(ctx context.Context, s *Store) error { return s.runOne(ctx) })
}

// Fresh returns once this server has seen every write that was acknowledged, by any server, before the call: in all etcds.
// For one view View.Fresh is enough.
func (s *Store) Fresh(ctx context.Context) error {
	return s.eachPart(ctx, func(ctx context.Context, s *Store) error { return s.freshOne(ctx) })
}

// RunCompaction compacts, every interval, the history that is older than one interval, in all etcds. Of several servers on
// one etcd only one does it at a time.
func (s *Store) RunCompaction(ctx context.Context, interval time.Duration) error {
	return s.eachPart(ctx, func(ctx context.Context, s *Store) error { return s.runCompaction(ctx, interval) })
}

// Tap passes everything to t from now on, until remove is called.
func (s *Store) Tap(t Tap) (remove func()) {
	if len(s.parts) == 0 {
		return s.tap(t)
	}
	var removes []func()
	var one sync.Mutex
	for _, each := range s.All() {
		removes = append(removes, each.tap(&partTap{each, &one, t}))
	}
	return func() {
		for _, remove := range removes {
			remove()
		}
	}
}

// partTap passes on what belongs to a part, one call at a time.
type partTap struct {
	part *Store
	one  *sync.Mutex
	to   Tap
}

// Put is part of Tap.
func (t *partTap) Put(key string, rev int64, value []byte) {
	if t.part.here(key) {
		t.one.Lock()
		defer t.one.Unlock()
		t.to.Put(key, rev, value)
	}
}

// Deleted is part of Tap.
func (t *partTap) Deleted(key string, rev int64) {
	if t.part.here(key) {
		t.one.Lock()
		defer t.one.Unlock()
		t.to.Deleted(key, rev)
	}
}

// Lost is part of Tap.
func (t *partTap) Lost() {
	t.one.Lock()
	defer t.one.Unlock()
	t.to.Lost()
}

// Scan calls put for every key below a prefix, as of one revision of each etcd, until put returns false. It loads no view. A
// Tap that was set before misses nothing: its events are newer than the scan, or the same.
func (s *Store) Scan(ctx context.Context, prefix string, put func(key string, rev int64, value []byte) bool) error {
	if len(s.parts) == 0 {
		return s.scan(ctx, prefix, put)
	}
	stores := s.All()
	if prefix != "" {
		stores = []*Store{s.At(prefix)}
	}
	more := true
	for _, each := range stores {
		if !more {
			break
		}
		err := each.scan(ctx, prefix, func(key string, rev int64, value []byte) bool {
			if each.here(key) {
				more = put(key, rev, value)
			}
			return more
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Read returns the newest value of a key below the store's prefix, or ErrNotFound, and the revision of the read in the etcd
// of the key. It loads no view.
func (s *Store) Read(ctx context.Context, key string) (value []byte, at int64, err error) {
	return s.At(key).read(ctx, key)
}
