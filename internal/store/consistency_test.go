package store

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/etcd/etcdtest"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

var seed = flag.Uint64("seed", 0, "of the consistency tests; 0: a new one each time")

func TestConsistency(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		dir := t.TempDir()
		w := newWorld(t, func() closingDB { return openEmbedded(t, dir) })
		w.faults = []fault{w.compact, w.restartStore, w.compact}
		w.run()
	})
	t.Run("memory", func(t *testing.T) {
		db := memory.New(clock.RealClock{})
		w := newWorld(t, func() closingDB { return staysOpen{db} })
		w.faults = []fault{w.compact, w.restartStore,
			func(*rand.Rand) { db.Break() },
			func(r *rand.Rand) {
				for range 3 {
					db.Inject(memory.Fault{Of: memory.Commit | memory.Range | memory.Head, Skip: r.IntN(9), Err: errInjected, Lost: r.IntN(2) == 0})
				}
			},
		}
		w.run()
	})
	t.Run("external", func(t *testing.T) {
		x := etcdtest.Start(t, false)
		w := newWorld(t, func() closingDB { return x.Dial() })
		w.faults = []fault{w.compact, w.restartStore,
			func(*rand.Rand) { x.Restart() },
			func(*rand.Rand) { x.Cut() },
		}
		w.run()
	})
}

var errInjected = errors.New("injected")

// staysOpen is a log that outlives its stores.
type staysOpen struct{ *memory.DB }

func (staysOpen) Close() error { return nil }

// Sizes of one run.
const (
	clients       = 4
	opsOfClient   = 200
	opsAFault     = 60 // operations between two faults
	smallWindow   = 4 << 10
	slowness      = 80 // events that a slow watcher lets pass
	opTimeout     = 20 * time.Second
	consistencyOf = 60 * time.Second
)

type fault func(r *rand.Rand)

// world is the clients, watchers and faults around a store, and what the
// clients and watchers saw.
type world struct {
	t      *testing.T
	ctx    context.Context
	seed   uint64
	open   func() closingDB
	faults []fault
	truth  *truth
	start  time.Time

	current   atomic.Pointer[generation]
	calm      sync.RWMutex // write-locked during a fault
	done      atomic.Int64 // operations
	compacted atomic.Int64
	final     int64
	finished  chan struct{} // closed when final is known

	mu        sync.Mutex
	ops       []porcupine.Operation
	writes    []told
	snapshots []snapshotSeen
}

type snapshotSeen struct {
	rev  int64
	text string
}

// generation is one life of the store.
type generation struct {
	store *Store
	view  *View
	ctx   context.Context // of the requests to it
	ended chan struct{}
	stop  func()
}

func newWorld(t *testing.T, open func() closingDB) *world {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	ctx, cancel := context.WithTimeout(t.Context(), consistencyOf)
	t.Cleanup(cancel)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again with -seed=%d", s)
		}
	})
	return &world{t: t, ctx: ctx, seed: s, open: open, truth: newTruth(), start: time.Now(), finished: make(chan struct{})}
}

func (w *world) rand(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(w.seed, stream)) }

// begin starts a generation.
func (w *world) begin() {
	db := w.open()
	s := New(db, Options{Prefix: "/registry/"})
	s.windowBytes = smallWindow
	ctx, cancel := context.WithCancel(w.ctx)
	var following sync.WaitGroup
	following.Go(func() { w.truth.follow(ctx, db) })
	stop := start(w.t, s, db)
	g := &generation{store: s, ctx: ctx, ended: make(chan struct{})}
	g.view = s.View(nodes)
	g.stop = func() {
		close(g.ended)
		cancel()
		following.Wait()
		stop()
	}
	w.current.Store(g)
}

func (w *world) run() {
	w.begin()
	var writers, watchers sync.WaitGroup
	for n := range clients {
		writers.Go(func() { w.client(n) })
	}
	writers.Go(w.chaos)
	logs := []*watchLog{
		{}, {slow: true}, {prefix: "ns1/"}, {prefix: "ns1/", slow: true}, {prefix: "ns1/a", exact: true},
		{prefix: "nobody/"}, {prefix: "ns2/a", exact: true, slow: true}, {trigger: "n1"}, {trigger: "n2", slow: true},
	}
	for n, l := range logs {
		watchers.Go(func() { w.watch(l, w.rand(uint64(100+n))) })
	}
	writers.Wait()
	eventually(w.t, func() bool { // a fault may just have happened
		done, err := w.current.Load().store.db.Commit(w.ctx, kv.Txn{Then: []kv.Op{{Key: truthPrefix + "end", Value: []byte("n0|end")}}})
		if err == nil {
			w.final = done.Rev
		}
		return err == nil
	})
	close(w.finished)
	watchers.Wait()
	w.truth.wait(w.ctx, w.final)
	w.current.Load().stop()
	if w.ctx.Err() != nil {
		w.t.Fatal("it did not end in time")
	}
	w.check(logs)
}

// awaitCalm waits until the current fault is over.
func (w *world) awaitCalm() {
	w.calm.RLock()
	defer w.calm.RUnlock()
}

// chaos lets a fault happen now and then.
func (w *world) chaos() {
	r := w.rand(1000)
	for next := int64(opsAFault); next < clients*opsOfClient && w.ctx.Err() == nil; next += opsAFault/2 + r.Int64N(opsAFault) {
		for w.done.Load() < next && w.ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		f := w.faults[r.IntN(len(w.faults))]
		w.calm.Lock()
		f(r)
		w.calm.Unlock()
	}
}

func (w *world) restartStore(*rand.Rand) {
	w.current.Load().stop()
	w.begin()
}

// compact throws away all but a few of the last revisions.
func (w *world) compact(r *rand.Rand) {
	rev := w.truth.revision() - r.Int64N(30)
	if rev <= w.compacted.Load() {
		return
	}
	w.compacted.Store(rev)
	eventually(w.t, func() bool {
		err := w.current.Load().store.db.Compact(w.ctx, rev)
		return err == nil || errors.Is(err, ErrCompacted)
	})
}

var keys = []string{"ns1/a", "ns1/b", "ns2/a", "ns2/b"}

func (w *world) client(id int) {
	r := w.rand(uint64(id))
	known := map[string]*Item{}
	for n := range opsOfClient {
		if w.ctx.Err() != nil {
			return
		}
		w.done.Add(1)
		value := fmt.Sprintf("n%d|%d-%d|%s", r.IntN(3), id, n, strings.Repeat("x", r.IntN(300)))
		if err := w.op(r, id, keys[r.IntN(len(keys))], value, known); err != nil {
			w.awaitCalm()
		}
	}
}

// op does one operation; known is what this client believes to be there.
func (w *world) op(r *rand.Rand, id int, key, value string, known map[string]*Item) error {
	g := w.current.Load()
	ctx, cancel := context.WithTimeout(g.ctx, opTimeout)
	defer cancel()
	switch i := known[key]; r.IntN(12) {
	case 0, 1, 2, 3, 4, 5:
		if i == nil {
			return w.write(id, opInput{opCreate, key, "", value}, known, func() (*Item, error) {
				return g.view.Create(ctx, key, Write{Value: []byte(value)})
			})
		}
		return w.write(id, opInput{opUpdate, key, string(i.Value()), value}, known, func() (*Item, error) {
			return g.view.Update(ctx, i, Write{Value: []byte(value)})
		})
	case 6:
		if i == nil {
			return nil
		}
		return w.write(id, opInput{opDelete, key, string(i.Value()), ""}, known, func() (*Item, error) {
			return g.view.Delete(ctx, i)
		})
	case 7, 8:
		return w.get(ctx, g, id, key, known)
	case 9:
		return w.list(ctx, g, id, known)
	case 10:
		return w.past(ctx, g, r)
	default:
		// Writes that the store itself never makes: a transaction over two
		// views, and a revision outside of the prefix.
		db, v := g.store.db, []byte(value)
		_, err := db.Commit(ctx, kv.Txn{Then: []kv.Op{{Key: truthPrefix + "txn/a", Value: v}, {Key: "/outside"}, {Key: truthPrefix + "txn/b", Value: v}}})
		if err == nil {
			_, err = db.Commit(ctx, kv.Txn{Then: []kv.Op{{Key: "/outside", Value: v}}})
		}
		return err
	}
}

func (w *world) write(id int, in opInput, known map[string]*Item, do func() (*Item, error)) error {
	call := time.Since(w.start)
	i, err := do()
	ret := int64(time.Since(w.start))
	var out opOutput
	var conflict *ConflictError
	switch {
	case err == nil:
		known[in.key] = i
		if in.kind == opDelete {
			delete(known, in.key)
		}
	case errors.Is(err, ErrExists):
		out.refused = true
	case errors.As(err, &conflict):
		out.refused = true
		if known[in.key] = conflict.Current; conflict.Current == nil {
			delete(known, in.key)
		}
	default:
		out.unknown, ret = true, math.MaxInt64
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ops = append(w.ops, porcupine.Operation{ClientId: id, Input: in, Call: int64(call), Output: out, Return: ret})
	if err == nil {
		w.writes = append(w.writes, told{rev: i.Rev, key: in.key, value: in.value, prev: in.prev})
	}
	if out.unknown {
		return err
	}
	return nil
}

func (w *world) saw(id int, call time.Duration, key string, i *Item, known map[string]*Item) {
	out := opOutput{}
	if delete(known, key); i != nil {
		out.value, known[key] = string(i.Value()), i
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ops = append(w.ops, porcupine.Operation{ClientId: id, Input: opInput{kind: opGet, key: key},
		Call: int64(call), Output: out, Return: int64(time.Since(w.start))})
}

func (w *world) get(ctx context.Context, g *generation, id int, key string, known map[string]*Item) error {
	call := time.Since(w.start)
	if err := g.store.Fresh(ctx); err != nil {
		return err
	}
	i, err := g.view.Get(ctx, key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	w.saw(id, call, key, i, known)
	return nil
}

func (w *world) list(ctx context.Context, g *generation, id int, known map[string]*Item) error {
	call := time.Since(w.start)
	if err := g.store.Fresh(ctx); err != nil {
		return err
	}
	s, err := g.view.Snapshot(ctx)
	if err != nil {
		return err
	}
	for _, k := range keys {
		i, err := s.Get(ctx, k)
		if err != nil {
			return err
		}
		w.saw(id, call, k, i, known)
	}
	return w.sawSnapshot(s)
}

// past lists as of some earlier revision.
func (w *world) past(ctx context.Context, g *generation, r *rand.Rand) error {
	rev := max(1, g.store.Revision()-r.Int64N(80))
	s, err := g.view.SnapshotAt(ctx, rev)
	if err == nil {
		// One older than the window is read from etcd only here.
		err = w.sawSnapshot(s)
	}
	switch {
	case errors.Is(err, ErrCompacted) && rev < w.compacted.Load():
		return nil
	case errors.Is(err, ErrFuture) || errors.Is(err, ErrCompacted):
		w.t.Errorf("list at %d: %v (compacted at %d)", rev, err, w.compacted.Load())
		return nil
	}
	return err
}

func (w *world) sawSnapshot(s *Snapshot) error {
	all, err := contents(s)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.snapshots = append(w.snapshots, snapshotSeen{s.Rev, all})
	return nil
}

// watchLog is what one watcher, and those that resumed after it, received.
type watchLog struct {
	prefix, trigger string
	exact, slow     bool
	segments        []*segment
}

func (l *watchLog) triggers() []string {
	if l.trigger == "" {
		return nil
	}
	return []string{l.trigger}
}

// segment is a stretch of a watch without gaps.
type segment struct {
	from, to int64
	events   []told
}

func (l *watchLog) wants(o told) bool {
	if l.trigger != "" && !strings.HasPrefix(o.value, l.trigger+"|") && !strings.HasPrefix(o.prev, l.trigger+"|") {
		return false
	}
	return o.key == l.prefix || !l.exact && strings.HasPrefix(o.key, l.prefix)
}

// watch keeps a watch alive to the end, resuming it where it ended.
func (w *world) watch(l *watchLog, r *rand.Rand) {
	s := &segment{from: 1, to: 1}
	l.segments = append(l.segments, s)
	for w.ctx.Err() == nil {
		g := w.current.Load()
		watcher, err := g.view.Watch(w.ctx, WatchOptions{After: s.to, Prefix: l.prefix, Exact: l.exact, Triggers: l.triggers()})
		if err != nil {
			w.awaitCalm()
			continue
		}
		err = w.read(l, s, g, watcher, r)
		watcher.Close()
		if err == nil {
			if w.over(s.to) {
				return
			}
			continue
		}
		if !errors.Is(err, ErrCompacted) {
			w.awaitCalm()
			continue
		}
		// Begin anew from a list, as a client does.
		if s.to >= w.compacted.Load() {
			w.t.Errorf("watch after %d: %v, but compaction was at %d", s.to, err, w.compacted.Load())
		}
		snap, err := g.view.Snapshot(w.ctx)
		if err != nil {
			w.awaitCalm()
			continue
		}
		if err := w.sawSnapshot(snap); err != nil {
			w.t.Error(err)
		}
		s = &segment{from: snap.Rev, to: snap.Rev}
		l.segments = append(l.segments, s)
	}
}

// over says that a watcher that is at rev has nothing to wait for.
func (w *world) over(rev int64) bool {
	select {
	case <-w.finished:
		return rev >= w.final
	default:
		return false
	}
}

// read reads a watcher for a while, to the end of its store or to the end.
func (w *world) read(l *watchLog, s *segment, g *generation, watcher *Watcher, r *rand.Rand) error {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	finished := w.finished
	for polls := r.IntN(60); ; polls-- {
		events, err := watcher.Poll(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			if o := toldOf(e); o.rev <= s.to || o.rev > watcher.Rev() {
				w.t.Errorf("told of %v between bookmarks %d and %d", o, s.to, watcher.Rev())
			} else if l.trigger == "" || l.wants(o) {
				s.events = append(s.events, o)
			}
		}
		s.to = watcher.Rev()
		if polls < 0 || w.over(s.to) {
			return nil // to resume from here, or because the run is over
		}
		if len(events) > 0 {
			if l.slow {
				w.lag(s.to + slowness)
			}
			continue
		}
		select {
		case <-watcher.Ready():
		case <-g.ended:
			return nil
		case <-finished:
			finished = nil
			if err := g.store.WaitFor(ctx, w.final); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lag returns when rev is reached, or can no longer be.
func (w *world) lag(rev int64) {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-w.finished:
		case <-ctx.Done():
		}
	}()
	w.truth.wait(ctx, rev)
}

// check compares what was seen with what happened.
func (w *world) check(logs []*watchLog) {
	t := w.t
	checkLinearizable(t, w.ops)
	at := map[string]bool{}
	for _, o := range w.truth.between(0, w.final, func(told) bool { return true }) {
		at[fmt.Sprintf("%d %s=%s<%s", o.rev, o.key, o.value, o.prev)] = true
	}
	for _, o := range w.writes {
		if !at[fmt.Sprintf("%d %s=%s<%s", o.rev, o.key, o.value, o.prev)] {
			t.Errorf("write %+v did not happen so", o)
		}
	}
	for _, s := range w.snapshots {
		if want := w.truth.at(s.rev); s.text != want {
			t.Errorf("snapshot at %d is %.300q, want %.300q", s.rev, s.text, want)
		}
	}
	resets := 0
	for _, l := range logs {
		resets += len(l.segments) - 1
		for _, s := range l.segments {
			want := w.truth.between(s.from, s.to, l.wants)
			if fmt.Sprint(s.events) != fmt.Sprint(want) {
				t.Errorf("watch %+v from %d to %d: got %d events, want %d: %s", *l, s.from, s.to, len(s.events), len(want), difference(s.events, want))
			}
		}
	}
	t.Logf("seed %d: %d operations, %d events, %d snapshots, %d watches compacted, %v", w.seed, len(w.ops), len(w.truth.events),
		len(w.snapshots), resets, time.Since(w.start).Round(time.Millisecond))
}

func difference(got, want []told) string {
	for n := range max(len(got), len(want)) {
		switch {
		case n >= len(got):
			return fmt.Sprintf("missing from %d on: %.60v", n, want[n])
		case n >= len(want):
			return fmt.Sprintf("too many from %d on: %.60v", n, got[n])
		case got[n] != want[n]:
			return fmt.Sprintf("at %d: got %.60v, want %.60v", n, got[n], want[n])
		}
	}
	return "none"
}
