package store

import (
	"context"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Cluster is the API objects of one cluster, in one log or in several: each has
// revisions of its own, and a Store that follows it. A view is of one Store. What
// it answers is consistent as of a revision of that one; revisions of different
// logs say nothing of each other, and objects of different logs cannot be written
// as one.
type Cluster struct {
	// Encodings bounds what all items together may cache.
	Encodings *Budget

	stores []*Store          // the first has what is in no other
	places map[string]*Store // by prefix of the keys: which of the others has them
}

// Part is where the objects of some resources lie.
type Part struct {
	DB DB
	// Prefixes of their keys, below the store's, with a slash at the end.
	Prefixes []string
}

// NewCluster makes the Stores of a cluster: on db, and on the logs of parts, which
// have the keys of some prefixes instead. Nothing is read or watched before Run.
func NewCluster(db DB, o Options, parts ...Part) *Cluster {
	c := &Cluster{places: map[string]*Store{}}
	shared := newShared(&o)
	c.Encodings = shared.encodings
	c.stores = append(c.stores, newStore(db, o, shared))
	c.stores[0].beyond = o.Past
	for _, p := range parts {
		s := newStore(p.DB, o, shared)
		c.stores = append(c.stores, s)
		for _, prefix := range p.Prefixes {
			c.places[prefix] = s
		}
	}
	if len(parts) > 0 {
		// A log may have keys that were written before they came to be in another.
		for _, s := range c.stores {
			s.owns = func(key string) bool { return c.At(key) == s }
		}
	}
	return c
}

// All returns the stores of all logs, the main one first.
func (c *Cluster) All() []*Store { return c.stores }

// At returns the store of the objects at a key below the prefix.
func (c *Cluster) At(key string) *Store {
	at := 0
	for range 2 { // a prefix has one segment or two
		n := strings.IndexByte(key[at:], '/')
		if n < 0 || len(c.places) == 0 {
			break
		}
		at += n + 1
		if s := c.places[key[:at]]; s != nil {
			return s
		}
	}
	return c.stores[0]
}

// View returns the view of a kind, in the store that has its objects.
func (c *Cluster) View(k Kind) *View { return c.At(k.Prefix).View(k) }

// Forget drops the view with a prefix, as Store.Forget does, if there is one.
func (c *Cluster) Forget(prefix string) {
	s := c.At(prefix)
	s.mu.Lock()
	v := s.views[prefix]
	s.mu.Unlock()
	if v != nil {
		s.Forget(v)
	}
}

// each calls f for all stores at the same time, and returns the first error.
func (c *Cluster) each(ctx context.Context, f func(ctx context.Context, s *Store) error) error {
	if len(c.stores) == 1 {
		return f(ctx, c.stores[0])
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range c.stores {
		g.Go(func() error { return s.guard.Call("a store", func() error { return f(ctx, s) }) })
	}
	return g.Wait()
}

// Run runs all stores until ctx ends.
func (c *Cluster) Run(ctx context.Context) error {
	return c.each(ctx, func(ctx context.Context, s *Store) error { return s.Run(ctx) })
}

// Recheck is Store.Recheck of all stores.
func (c *Cluster) Recheck(ctx context.Context) {
	_ = c.each(ctx, func(ctx context.Context, s *Store) error {
		s.Recheck(ctx)
		return nil
	})
}

// Fresh is Store.Fresh of all stores. For one view View.Fresh is enough.
func (c *Cluster) Fresh(ctx context.Context) error {
	return c.each(ctx, func(ctx context.Context, s *Store) error { return s.Fresh(ctx) })
}

// RunCompaction runs that of all stores.
func (c *Cluster) RunCompaction(ctx context.Context, interval time.Duration) error {
	return c.each(ctx, func(ctx context.Context, s *Store) error { return s.RunCompaction(ctx, interval) })
}

// Tap passes everything in all logs to t from now on, one call at a time, until
// remove is called.
func (c *Cluster) Tap(t Tap) (remove func()) {
	if len(c.stores) > 1 {
		t = &serial{to: t}
	}
	var removes []func()
	for _, s := range c.stores {
		removes = append(removes, s.Tap(t))
	}
	return func() {
		for _, remove := range removes {
			remove()
		}
	}
}

// serial is a Tap that several goroutines call.
type serial struct {
	one sync.Mutex
	to  Tap
}

// Put is part of Tap.
func (t *serial) Put(key string, rev int64, value []byte) {
	t.one.Lock()
	defer t.one.Unlock()
	t.to.Put(key, rev, value)
}

// Deleted is part of Tap.
func (t *serial) Deleted(key string, rev int64) {
	t.one.Lock()
	defer t.one.Unlock()
	t.to.Deleted(key, rev)
}

// Lost is part of Tap.
func (t *serial) Lost() {
	t.one.Lock()
	defer t.one.Unlock()
	t.to.Lost()
}

// Scan is Store.Scan of all stores that have keys below the prefix: "" or that of
// a view.
func (c *Cluster) Scan(ctx context.Context, prefix string, put func(key string, rev int64, value []byte) bool) error {
	stores := c.stores
	if prefix != "" {
		stores = []*Store{c.At(prefix)}
	}
	more := true
	for _, s := range stores {
		if !more {
			break
		}
		if err := s.Scan(ctx, prefix, func(key string, rev int64, value []byte) bool {
			more = put(key, rev, value)
			return more
		}); err != nil {
			return err
		}
	}
	return nil
}

// Read is Store.Read of the store that has the key.
func (c *Cluster) Read(ctx context.Context, key string) (value []byte, at int64, err error) {
	return c.At(key).Read(ctx, key)
}

// Mark is Store.Mark. A mark lies where the objects of the resource that its name
// begins with do.
func (c *Cluster) Mark(ctx context.Context, name string) (int64, error) {
	return c.At(name).Mark(ctx, name)
}

// Unmark is Store.Unmark.
func (c *Cluster) Unmark(ctx context.Context, name string) error {
	return c.At(name).Unmark(ctx, name)
}

// Views returns the state of all views that belong to a resource.
func (c *Cluster) Views() (out []ViewState) {
	for _, s := range c.stores {
		for _, v := range s.allViews() {
			if v.kind.Resource.Resource != "" {
				out = append(out, v.State())
			}
		}
	}
	return out
}
