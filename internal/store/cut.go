package store

import (
	"context"
	"sort"
	"strings"
	"sync"

	"github.com/tidwall/btree"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Cut is what all views of a cluster hold at one moment, of each log as of one of its revisions. It does not change, and it shares
// its items with the views: to make one copies nothing.
type Cut struct {
	// Rev is the newest revision of all logs.
	Rev int64

	revs map[*Store]int64
	held []holding // in the order of their prefixes

	// copying is held while a tree of the cut is copied: several logs may begin with one cut, and a copy marks the tree.
	copying sync.Mutex
}

// holding is what one view holds.
type holding struct {
	path  string // the prefix of its keys in the log
	items *btree.Map[string, *Item]
}

// Cut returns what all views hold now, with everything that was acknowledged before the call. Views that nobody has read yet are
// loaded first.
func (c *Cluster) Cut(ctx context.Context) (*Cut, error) {
	if err := c.Fresh(ctx); err != nil {
		return nil, err
	}
	for {
		for _, s := range c.stores {
			for _, v := range s.allViews() {
				if err := v.lockLoaded(ctx); err == nil {
					v.mu.Unlock()
				} else if ctx.Err() != nil || v.alive() {
					return nil, err
				}
			}
		}
		if cut := c.cut(); cut != nil {
			return cut, nil
		}
	}
}

// CutAt returns what all views held at a revision, but for kinds of which the past is not kept: they are as they are now. Its own revision is
// that of now, after which its log goes on. Errors: ErrCompacted, ErrFuture.
func (c *Cluster) CutAt(ctx context.Context, rev int64) (*Cut, error) {
	cut, err := c.Cut(ctx)
	if err != nil {
		return nil, err
	}
	main := c.stores[0]
	if main.beyond == nil {
		return nil, ErrCompacted
	}
	for n := range cut.held {
		h := &cut.held[n]
		v := main.viewOf(h.path)
		if v == nil {
			continue
		}
		err := main.beyond.Changed(ctx, v.kind.Prefix, rev, func(key string, k *kv.KeyValue) {
			if key = key[len(v.kind.Prefix):]; k == nil {
				h.items.Delete(key)
			} else {
				h.items.Set(key, v.shared(ctx, h.items, *k))
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return cut, ctx.Err()
}

// viewOf returns the view with a prefix of the log, or nil.
func (s *Store) viewOf(path string) *View {
	s.mu.RLock()
	defer s.mu.RUnlock()
	below, ok := strings.CutPrefix(path, s.prefix)
	if !ok {
		return nil
	}
	return s.views[below]
}

// alive reports whether the view was not dropped.
func (v *View) alive() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state != forgotten
}

// cut holds all logs for the moment in which the views' trees are copied; nil: a view is not loaded.
func (c *Cluster) cut() *Cut {
	cut := &Cut{revs: map[*Store]int64{}}
	for _, s := range c.stores {
		s.follow.applying.Lock()
		defer s.follow.applying.Unlock()
	}
	for _, s := range c.stores {
		cut.revs[s] = s.Revision()
		cut.Rev = max(cut.Rev, s.Revision())
		for _, v := range s.allViews() {
			h, ok := v.held()
			if !ok {
				return nil
			}
			if h.items != nil {
				cut.held = append(cut.held, h)
			}
		}
	}
	sort.Slice(cut.held, func(i, j int) bool { return cut.held[i].path < cut.held[j].path })
	return cut
}

// held returns what the view holds, nothing of one that was dropped; ok is false if it is not loaded.
func (v *View) held() (h holding, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch v.state {
	case forgotten:
		return holding{}, true
	case loaded:
		return holding{v.etcdPrefix, v.items.Copy()}, true
	}
	return holding{}, false
}

// of returns what the view with a key holds; nil: the key is in none.
func (c *Cut) of(key string) *holding {
	n := sort.Search(len(c.held), func(n int) bool { return c.held[n].path > key })
	if n == 0 || !strings.HasPrefix(key, c.held[n-1].path) {
		return nil
	}
	return &c.held[n-1]
}

func (c *Cut) copyOf(h *holding) *btree.Map[string, *Item] {
	c.copying.Lock()
	defer c.copying.Unlock()
	return h.items.Copy()
}

// item returns the item at a key of the log; nil: there is none.
func (c *Cut) item(key string) *Item {
	h := c.of(key)
	if h == nil {
		return nil
	}
	i, _ := h.items.Get(key[len(h.path):])
	return i
}

// Get returns the key as if it were stored; ok is false if there is none. Of a key's life before only its last change is known.
func (c *Cut) Get(key string) (k kv.KeyValue, ok bool) {
	i := c.item(key)
	if i == nil {
		return kv.KeyValue{}, false
	}
	return keyValue(key, i), true
}

func keyValue(key string, i *Item) kv.KeyValue {
	return kv.KeyValue{Key: []byte(key), Value: i.peek(), CreateRevision: i.Rev, ModRevision: i.Rev, Version: 1}
}

// Ascend passes on the keys from one on until yield returns false.
func (c *Cut) Ascend(from string, yield func(kv.KeyValue) bool) {
	more := true
	for n := range c.held {
		h := &c.held[n]
		if !more {
			return
		}
		if h.path < from && !strings.HasPrefix(from, h.path) {
			continue
		}
		h.items.Ascend(strings.TrimPrefix(max(from, h.path), h.path), func(key string, i *Item) bool {
			more = yield(keyValue(h.path+key, i))
			return more
		})
	}
}

// Forked is a log that begins with a Cut. Views on it begin with the items of the cut, and read only what was changed since.
type Forked interface {
	DB
	// Cut is what it begins with.
	Cut() *Cut
	// Written returns what becomes of each key that was written since, in the order of keys, and the keys that writes relied on.
	Written() (ops []kv.Op, relied []string)
	// Touched passes on the keys of a range that were written since, as of the newest revision, and returns that: nil for one that
	// is not there any more.
	Touched(ctx context.Context, from, end string, yield func(key string, k *kv.KeyValue)) (rev int64, err error)
}

// readFork reads the view of a forked log: the items of its cut, and what was written since.
func (v *View) readFork(ctx context.Context) (*btree.Map[string, *Item], int64, error) {
	items := &btree.Map[string, *Item]{}
	if h := v.store.fork.Cut().of(v.etcdPrefix); h != nil && h.path == v.etcdPrefix {
		items = v.store.fork.Cut().copyOf(h)
	}
	rev, err := v.store.fork.Touched(ctx, v.etcdPrefix, kv.PrefixEnd(v.etcdPrefix), func(key string, k *kv.KeyValue) {
		if k == nil {
			items.Delete(key[len(v.etcdPrefix):])
			return
		}
		i := v.item(ctx, *k)
		items.Set(i.Key, i)
	})
	return items, rev, err
}

// lent reports whether an item is one of those that the log began with.
func (s *Store) lent(i *Item) bool { return s.fork != nil && i.Rev <= s.fork.Cut().Rev }
