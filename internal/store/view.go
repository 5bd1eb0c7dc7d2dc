package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Kind says what a View holds.
type Kind struct {
	// Prefix is below the store's prefix, with a slash at its end: "pods/".
	Prefix string
	// Resource is what metrics call it; the zero value: metrics leave it out.
	Resource schema.GroupResource
	// Labels and Fields return what selectors look at, read from a stored
	// value.
	Labels func(value []byte) (labels.Set, error)
	Fields func(value []byte) (fields.Set, error)
	// Trigger names a field by whose value watchers are woken: a watcher of one
	// node's pods is not woken by those of other nodes. Optional.
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
	old        pastItems
	readings   pastReadings
	counts     counts

	mu sync.Mutex
	// All below is guarded by mu. Snapshots of items may be read without it.
	state    loadState
	gets     int // since the view was not loaded
	loading  *load
	pending  []change // arrived while loading
	items    *btree.Map[string, *Item]
	shares   shares           // nil until first requested
	orders   []*order         // that were asked for
	making   chan struct{}    // closed when the order is there, or not, that is being made; nil: none is
	missed   missed           // the indexes that there are not
	bytes    int64            // of the values of items
	plain    int64            // those of them that are not compressed
	epoch    int              // counts how often items was replaced
	loadedAt int64            // the revision at which items were read
	rev      int64            // the newest change in items, or loadedAt
	own      map[string]*Item // by key: written by this process, not yet brought by the log
	window   window
	watchers watchers
	broken   map[string]bool // keys of items that could not be decrypted, and whether that was logged
	healed   int             // how often some of them could be later
}

type loadState int

const (
	idle loadState = iota
	loading
	loaded
	forgotten
)

// load is one attempt to load a view. All its readers wait for the same one.
type load struct {
	done chan struct{}
	err  error
}

// change is one event of the log, decoded.
type change struct {
	rev  int64
	key  string
	item *Item // nil: deleted
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
	v.window.limit = s.windowBytes
	v.window.reset(0)
	s.views[k.Prefix] = v
	return v
}

// Store returns the store that the view belongs to.
func (v *View) Store() *Store { return v.store }

// Forget drops a view: reads of it return ErrForgotten, and so do its watchers
// once they have delivered what the window holds for them.
func (s *Store) Forget(v *View) {
	v.dropSeries() // before there can be another view of the resource
	s.mu.Lock()
	if s.views[v.kind.Prefix] == v {
		delete(s.views, v.kind.Prefix)
	}
	s.mu.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.state, v.loading, v.pending = forgotten, nil, nil
	v.items, v.shares, v.orders, v.own, v.plain = &btree.Map[string, *Item]{}, nil, nil, nil, 0
	v.epoch++
	v.watchers.wakeAll(v.window.next())
}

// lockLoaded loads the view if needed and locks v.mu. On an error v.mu is not
// locked.
func (v *View) lockLoaded(ctx context.Context) error {
	for {
		v.mu.Lock()
		if v.state == loaded {
			return nil
		}
		l := v.loadLocked()
		v.mu.Unlock()
		select {
		case <-l.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if l.err != nil && !errors.Is(l.err, errReset) {
			return l.err
		}
	}
}

// loadLocked returns the load that is under way, and starts one if there is
// none.
func (v *View) loadLocked() *load {
	if v.state == loading {
		return v.loading
	}
	l := &load{done: make(chan struct{})}
	if v.state == forgotten {
		l.err = ErrForgotten
		close(l.done)
		return l
	}
	if !v.store.tasks.start(func(ctx context.Context) { v.load(ctx, l) }) {
		l.err = fmt.Errorf("load %s: %w", v.kind.Prefix, context.Canceled)
		close(l.done)
		return l
	}
	v.state, v.loading = loading, l
	return l
}

var errReset = errors.New("view was reset while it was read")

// load reads the view's objects at one revision, then applies the events that
// came meanwhile.
func (v *View) load(ctx context.Context, l *load) {
	defer close(l.done)
	began := time.Now()
	items, rev, err := v.read(ctx)
	for errors.Is(err, ErrCompacted) { // between two pages
		items, rev, err = v.read(ctx)
	}
	if err == nil {
		v.wasLoaded(began)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.loading != l {
		// The view was reset meanwhile; what was read may miss events.
		l.err = errReset
		return
	}
	changes := v.pending
	v.loading, v.pending = nil, nil
	if err != nil {
		l.err = fmt.Errorf("load %s: %w", strings.TrimSuffix(v.kind.Prefix, "/"), err)
		v.state = idle
		return
	}
	v.counts.loads.Add(1)
	v.items, v.shares, v.orders, v.loadedAt, v.rev, v.state = items, nil, nil, rev, rev, loaded
	v.bytes, v.plain, v.broken = 0, 0, nil
	v.epoch++
	if v.store.fork == nil { // most items of a fork are counted where they come from
		items.Scan(func(key string, i *Item) bool {
			v.noteLocked(key, i)
			v.bytes += int64(i.Size())
			v.countLocked(i)
			return true
		})
	}
	v.window.reset(rev)
	for _, c := range changes {
		v.applyLocked(c)
	}
}

// read reads the whole view from etcd, and returns its items and revision.
func (v *View) read(ctx context.Context) (*btree.Map[string, *Item], int64, error) {
	if _, err := v.store.begin(ctx); err != nil {
		return nil, 0, err
	}
	if v.store.fork != nil {
		return v.readFork(ctx)
	}
	defer v.listedFromEtcd(time.Now())
	items := &btree.Map[string, *Item]{}
	pack, packed := v.packLoaded()
	asked := func(began time.Time, err error) { v.asked(etcdList, began, err) }
	rev, err := v.store.all(ctx, v.etcdPrefix, asked, func(k kv.KeyValue) bool {
		i := v.item(ctx, k)
		items.Load(i.Key, i)
		pack(i)
		return true
	})
	packed()
	if err != nil {
		return nil, 0, err
	}
	v.counts.etcd.lists.Add(1)
	v.counts.etcd.read.Add(int64(items.Len()))
	v.counts.etcd.returned.Add(int64(items.Len()))
	return items, rev, nil
}

// apply takes events of the log. It gets all events that a transaction has in
// this view in one call.
func (v *View) apply(ctx context.Context, events []kv.Event) {
	v.counts.received.Add(int64(len(events)))
	v.mu.Lock()
	if v.state == idle || v.state == forgotten {
		// A load that begins now sees these events: they are in etcd already.
		v.mu.Unlock()
		return
	}
	triggered := v.watchers.sizes[byTrigger] > 0 || v.shares != nil
	v.dropIdleOrdersLocked()
	orders, before := slices.Clone(v.orders), []*Item(nil)
	changes := make([]change, len(events))
	for n := range events {
		key := events[n].Key[len(v.etcdPrefix):]
		changes[n].item = v.ownLocked(key, events[n].ModRevision)
		if len(orders) == 0 {
			continue
		}
		if i, ok := v.items.Get(string(key)); ok {
			before = append(before, i)
		}
	}
	v.mu.Unlock()
	v.counts.taken.Add(int64(len(events)))
	// Decoding may take long (decryption), so it is done without the lock.
	for n := range events {
		changes[n] = v.change(ctx, &events[n], changes[n].item)
		if triggered {
			v.trigger(changes[n].item)
		}
	}
	readOrdered(orders, changes, before)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch v.state {
	case loaded:
		for _, c := range changes {
			v.applyLocked(c)
		}
	case loading:
		v.pending = append(v.pending, changes...)
	}
}

// readOrdered reads the values by which items are, or were, in orders. Items keep them.
func readOrdered(orders []*order, changes []change, before []*Item) {
	for _, o := range orders {
		for _, c := range changes {
			if c.item != nil {
				o.Value(c.item)
			}
		}
		for _, i := range before {
			o.Value(i)
		}
	}
}

// change decodes an event, unless its item is known.
func (v *View) change(ctx context.Context, e *kv.Event, i *Item) change {
	if e.Deleted {
		return change{rev: e.Revision(), key: string(e.Key[len(v.etcdPrefix):])}
	}
	if i == nil {
		i = v.item(ctx, e.KeyValue)
	}
	return change{rev: e.Revision(), key: i.Key, item: i}
}

func (v *View) applyLocked(c change) {
	if c.rev <= v.loadedAt {
		return // the load has read it
	}
	v.settledLocked(&c)
	v.noteLocked(c.key, c.item)
	ev := &Event{Rev: c.rev, Item: c.item, at: v.store.clock.Now()}
	if c.item != nil {
		ev.Prev, _ = v.items.Set(c.key, c.item)
		v.bytes += int64(c.item.Size())
		v.countLocked(c.item)
	} else if ev.Prev, _ = v.items.Delete(c.key); ev.Prev == nil {
		return
	}
	if v.shares != nil {
		v.shares.delete(v.trigger(ev.Prev), ev.Prev)
		if c.item != nil {
			v.shares.set(v.trigger(c.item), c.item)
		}
	}
	for _, o := range v.orders {
		o.apply(ev)
	}
	if ev.Prev != nil {
		if !v.store.lent(ev.Prev) {
			v.bytes -= int64(ev.Prev.Size())
			v.uncountLocked(ev.Prev)
		}
	}
	v.rev = ev.Rev
	seq := v.window.next()
	v.window.append(ev)
	v.counts.dispatched.Add(1)
	v.watchers.wake(v, ev, seq)
}

// reset drops all items; the view is loaded again when next read. Its watchers
// go on from etcd's history, or end if that is compacted.
func (v *View) reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.resetLocked()
}

func (v *View) resetLocked() {
	if v.state == forgotten {
		return
	}
	v.state, v.loading, v.pending = idle, nil, nil
	v.items, v.shares, v.orders, v.own, v.bytes, v.plain, v.broken = &btree.Map[string, *Item]{}, nil, nil, nil, 0, 0, nil
	v.epoch++
	v.window.reset(0)
	v.watchers.wakeAll(behind)
}

// Labels returns the item's labels, read from its bytes once.
func (v *View) Labels(i *Item) (labels.Set, error) {
	return once(v, i, &i.labels, v.kind.Labels)
}

// Fields returns the item's selectable fields, read from its bytes once.
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
	a, err := read(i.Value())
	if err != nil {
		return none, v.of(i, err)
	}
	have.Store(&a)
	return a, nil
}

// of says which item an error is about.
func (v *View) of(i *Item, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s%s: %w", v.kind.Prefix, i.Key, err)
}

// Changed returns the revision of the newest change in the view. While it stays
// the same, the objects do too.
func (v *View) Changed(ctx context.Context) (int64, error) {
	if err := v.lockLoaded(ctx); err != nil {
		return 0, err
	}
	defer v.mu.Unlock()
	return v.rev, nil
}

// Len returns the number of objects, and whether the view is loaded.
func (v *View) Len() (int, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.items.Len(), v.state == loaded
}

// Size returns the number of objects, the bytes of their stored values (of a fork: of those written since), and
// whether the view is loaded.
func (v *View) Size() (objects int, bytes int64, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.items.Len(), v.bytes, v.state == loaded
}
