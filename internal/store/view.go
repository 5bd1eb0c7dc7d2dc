package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Kind says what a View holds.
type Kind struct {
	// Prefix is below the store's prefix, with a slash at its end: "pods/".
	Prefix string
	// Labels and Fields read off a stored value what selectors look at.
	Labels func(value []byte) (labels.Set, error)
	Fields func(value []byte) (fields.Set, error)
	// Trigger names a field by whose value watchers are woken, so that one
	// who watches the pods of a node sleeps through the others'. Optional.
	Trigger string
	// Transformer changes values on their way to etcd; nil: none.
	Transformer Transformer
}

// View is the current objects of one kind and the recent events that led to
// them. It is loaded from etcd when first read.
type View struct {
	store      *Store
	kind       Kind
	etcdPrefix string

	mu sync.Mutex
	// All below is guarded by mu. Snapshots of items may be read without.
	state    loadState
	loading  *load
	pending  []*clientv3.Event // arrived while loading
	items    *btree.Map[string, *Item]
	rev      int64 // the newest change in items, or the revision they were loaded at
	window   window
	watchers watchers
}

type loadState int

const (
	idle loadState = iota
	loading
	loaded
)

// load is one attempt to load a view, awaited by all who need it.
type load struct {
	done chan struct{}
	err  error
}

// View returns the view of a kind, made on the first call for its prefix.
func (s *Store) View(k Kind) *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.views[k.Prefix]; v != nil {
		return v
	}
	v := &View{store: s, kind: k, etcdPrefix: s.prefix + k.Prefix, items: &btree.Map[string, *Item]{}}
	v.watchers.init()
	v.window.reset(0)
	s.views[k.Prefix] = v
	return v
}

// Forget drops a view, ending its watchers.
func (s *Store) Forget(v *View) {
	s.mu.Lock()
	delete(s.views, v.kind.Prefix)
	s.mu.Unlock()
	v.reset()
}

// ready loads the view if it is not loaded.
func (v *View) ready(ctx context.Context) error {
	v.mu.Lock()
	if v.state == loaded {
		v.mu.Unlock()
		return nil
	}
	l := v.loading
	if v.state == idle {
		l = &load{done: make(chan struct{})}
		v.state, v.loading = loading, l
		v.store.mu.RLock()
		run := v.store.ctx
		v.store.mu.RUnlock()
		go v.load(run, l)
	}
	v.mu.Unlock()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// loadPage is how many objects are asked of etcd at a time.
const loadPage = 2000

// load reads the view's objects at one revision and then applies the events
// that came meanwhile.
func (v *View) load(ctx context.Context, l *load) {
	defer close(l.done)
	items := &btree.Map[string, *Item]{}
	rev := int64(0)
	l.err = v.rangeAt(ctx, v.etcdPrefix, clientv3.GetPrefixRangeEnd(v.etcdPrefix), 0, 0, func(i *Item) {
		items.Set(i.Key, i)
	}, &rev)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.loading != l {
		// The view was reset meanwhile; what was read may miss events.
		l.err = errors.Join(l.err, errReset)
		return
	}
	v.loading = nil
	events := v.pending
	v.pending = nil
	if l.err != nil {
		l.err = fmt.Errorf("load %s: %w", strings.TrimSuffix(v.kind.Prefix, "/"), l.err)
		v.state = idle
		return
	}
	v.items, v.rev, v.state = items, rev, loaded
	v.window.reset(rev)
	for _, e := range events {
		v.applyLocked(ctx, e)
	}
}

var errReset = errors.New("view was reset while it was read")

// rangeAt reads keys from..end at revision at (0: now) in pages, in order, at
// most limit of them (0: all), and sets *rev to the revision read.
func (v *View) rangeAt(ctx context.Context, from, end string, at, limit int64, each func(*Item), rev *int64) error {
	for n := int64(0); ; {
		page := int64(loadPage)
		if limit > 0 {
			page = min(page, limit-n)
		}
		r, err := v.store.db.Client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithRev(at), clientv3.WithLimit(page))
		if err != nil {
			return compactedOr(err)
		}
		if at == 0 {
			at = r.Header.Revision
		}
		*rev = at
		for _, kv := range r.Kvs {
			each(v.item(ctx, kv))
		}
		n += int64(len(r.Kvs))
		if !r.More || len(r.Kvs) == 0 || limit > 0 && n >= limit {
			return nil
		}
		from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	}
}

func compactedOr(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return ErrCompacted
	case errors.Is(err, rpctypes.ErrFutureRev):
		return ErrFuture
	}
	return err
}

// apply takes events of the log: all that one transaction did to this view, or
// more.
func (v *View) apply(ctx context.Context, events []*clientv3.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch v.state {
	case loaded:
		for _, e := range events {
			v.applyLocked(ctx, e)
		}
	case loading:
		v.pending = append(v.pending, events...)
	}
}

func (v *View) applyLocked(ctx context.Context, e *clientv3.Event) {
	if e.Kv.ModRevision <= v.rev && !v.sameRevision(e) {
		return // it is in what was loaded
	}
	ev := &Event{Rev: e.Kv.ModRevision, at: v.store.clock.Now()}
	if e.Type == clientv3.EventTypeDelete {
		prev, ok := v.items.Delete(string(e.Kv.Key[len(v.etcdPrefix):]))
		if !ok {
			return
		}
		ev.Prev = prev
	} else {
		ev.Item = v.item(ctx, e.Kv)
		ev.Prev, _ = v.items.Set(ev.Item.Key, ev.Item)
	}
	v.rev = ev.Rev
	seq := v.window.next()
	v.window.append(ev)
	v.watchers.wake(v, ev, seq)
}

// sameRevision says that e belongs to the transaction of the newest event in
// the window: one of several changes at one revision.
func (v *View) sameRevision(e *clientv3.Event) bool {
	n := len(v.window.events)
	return n > 0 && v.window.events[n-1].Rev == e.Kv.ModRevision && v.window.start < e.Kv.ModRevision
}

// reset forgets everything; the view loads again when next read. Its watchers
// go on from etcd's history, or end where that is compacted.
func (v *View) reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.state, v.loading, v.pending = idle, nil, nil
	v.items = &btree.Map[string, *Item]{}
	v.window.reset(0)
	v.watchers.wakeAll()
}

// Labels returns the item's labels, read off its bytes once.
func (v *View) Labels(i *Item) (labels.Set, error) {
	return once(v, i, &i.labels, v.kind.Labels)
}

// Fields returns the item's selectable fields, read off its bytes once.
func (v *View) Fields(i *Item) (fields.Set, error) {
	return once(v, i, &i.fields, v.kind.Fields)
}

func once[T any](v *View, i *Item, have *atomic.Pointer[T], read func([]byte) (T, error)) (T, error) {
	if a := have.Load(); a != nil {
		return *a, nil
	}
	var none T
	if i.Err != nil {
		return none, i.Err
	}
	a, err := read(i.Value)
	if err != nil {
		return none, fmt.Errorf("%s%s: %w", v.kind.Prefix, i.Key, err)
	}
	have.Store(&a)
	return a, nil
}

// Len is the number of objects, and whether the view is loaded at all.
func (v *View) Len() (int, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.items.Len(), v.state == loaded
}
