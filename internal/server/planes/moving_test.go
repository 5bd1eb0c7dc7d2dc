package planes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
	"github.com/kanzen-io/kanzen/internal/wire/apiclient"
)

// logs are that of a root and those of two storage classes, which outlive servers.
type logs struct{ root, a, b *memory.DB }

func newLogs(t *testing.T) *logs {
	l := &logs{memory.New(clock.RealClock{}), memory.New(clock.RealClock{}), memory.New(clock.RealClock{})}
	for _, db := range []*memory.DB{l.root, l.a, l.b} {
		t.Cleanup(func() { _ = db.Close() })
	}
	// Their revisions differ much.
	for range 5000 {
		if _, err := l.b.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "other"}}}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// given are the logs for a process, as around has them.
func (l *logs) given(around func(name string, db store.DB) store.DB) process.Given {
	if around == nil {
		around = func(_ string, db store.DB) store.DB { return db }
	}
	return process.Given{DB: around("", l.root), Classes: []process.Class{{Name: "a", DB: around("a", l.a)}, {Name: "b", DB: around("b", l.b)}}}
}

// has returns in which logs something of a plane is, without its mark.
func (l *logs) has(t *testing.T, uid types.UID) (where []string) {
	t.Helper()
	for name, db := range map[string]store.DB{"": l.root, "a": l.a, "b": l.b} {
		n, _, err := usage(t.Context(), db, markOf(uid)+"/")
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			where = append(where, name)
		}
	}
	return where
}

// lie has a plane lie in a class, and waits until it does.
func (g *ground) lie(t *testing.T, plane, class string) {
	t.Helper()
	g.wantClass(t, plane, class)
	g.await(t, plane, func(p *Plane) bool {
		return p.Status.storageClass() == class && meta.IsStatusConditionTrue(p.Status.Conditions, stored)
	})
}

func (g *ground) wantClass(t *testing.T, plane, class string) {
	t.Helper()
	if err := g.root.Do(t.Context(), http.MethodPatch, planesPath+"/"+plane, apiclient.MergePatch, map[string]any{"spec": map[string]any{"storageClass": class}}, nil); err != nil {
		t.Fatal(err)
	}
}

// A plane lies in the storage class that it names, and nowhere else; it can only name one that there is.
func TestStorageClass(t *testing.T) {
	l := newLogs(t)
	g := startWith(t, settings(t.TempDir()), l.given(nil))
	p := g.create(t, "one", PlaneSpec{StorageClass: "a"})
	g.must(t, "one", "POST", configMaps, `{"metadata":{"name":"c"}}`, nil)
	if where := l.has(t, p.UID); !slices.Equal(where, []string{"a"}) || p.Status.storageClass() != "a" {
		t.Errorf("it lies in %q, and its status says %q", where, p.Status.storageClass())
	}
	for _, err := range []error{
		g.tryCreate(t, "two", PlaneSpec{StorageClass: "c"}),
		g.root.Do(t.Context(), http.MethodPatch, planesPath+"/one", apiclient.MergePatch, map[string]any{"spec": map[string]any{"storageClass": "c"}}, nil),
	} {
		if err == nil || !strings.Contains(err.Error(), `there is no storage class "c": this server has [a b]`) {
			t.Error(err)
		}
	}
	g.delete(t, "one", nil)
	eventually(t, "the plane stays", func() bool { return g.find("one") == nil })
	if where := l.has(t, p.UID); len(where) > 0 {
		t.Errorf("something of a plane that is gone is left in %q", where)
	}
	if at, err := readMark(t.Context(), l.a, p.UID); at != 0 || err != nil {
		t.Errorf("its mark is left: %v", err)
	}
	if s, err := g.storageOf(t.Context(), p.UID); s.at != 0 || err != nil {
		t.Errorf("its record is left: %v", err)
	}
}

// TestMoveStorage moves a plane between servers and storage classes while it is written to and watched: no write that was acknowledged is
// lost, no watch misses an event, sees one twice or has to list anew, what clients have read before they can change, and nobody waits long.
func TestMoveStorage(t *testing.T) {
	l := newLogs(t)
	s := severalOn(t, l, 2)
	a := s.all[0]
	one := a.create(t, "one", PlaneSpec{})
	c := a.over(t, "one")
	old := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "default"}}
	if err := c.Do(t.Context(), http.MethodPost, configMaps, "application/json", &old, &old); err != nil {
		t.Fatal(err)
	}
	var list corev1.ConfigMapList
	if err := c.Do(t.Context(), http.MethodGet, configMaps, "", nil, &list); err != nil {
		t.Fatal(err)
	}
	var watches [4]counting
	for n := range watches {
		go watches[n].follow(t, s.all[n%2].over(t, "one"), list.ResourceVersion)
	}
	w := writer{c: c}
	w.begin(t)
	var events int64 // that are not creations of the writer
	classes := []string{"a", "b", "", "b", "a", ""}
	moves := 12
	if testing.Short() {
		moves = 6
	}
	for n := range moves {
		if n%3 == 1 {
			to := s.all[n/3%2]
			a.prefer(t, "one", to.self())
			a.await(t, "one", func(p *Plane) bool { return p.Status.State == awake && p.Status.server() == to.self() })
		}
		a.lie(t, "one", classes[n%len(classes)])
		// As a controller does that has read it long before.
		old.Data = map[string]string{"n": fmt.Sprint(n)}
		stale := old
		if err := c.Do(t.Context(), http.MethodPut, configMaps+"/old", "application/json", &old, &old); err != nil {
			t.Fatalf("move %d: %v", n, err)
		}
		events++
		if err := c.Do(t.Context(), http.MethodPut, configMaps+"/old", "application/json", &stale, nil); err == nil || !strings.Contains(err.Error(), "has been modified") {
			t.Errorf("a change of what is not current: %v", err)
		}
		before := w.written.Load()
		eventually(t, "nothing is written after a move", func() bool { return w.written.Load() > before+20 })
	}
	w.end()
	written := w.written.Load()
	for _, g := range s.all {
		if err := g.over(t, "one").Do(t.Context(), http.MethodGet, configMaps+"?fieldSelector=metadata.name!=kube-root-ca.crt", "", nil, &list); err != nil || int64(len(list.Items)) != written+1 {
			t.Errorf("%d were written, %d are there: %v", written+1, len(list.Items), err)
		}
	}
	for n := range watches {
		for end := time.Now().Add(10 * time.Second); watches[n].seen.Load() < written+events && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
		if seen := watches[n].seen.Load(); watches[n].twice.Load() || watches[n].relists.Load() > 0 || seen != written+events {
			t.Errorf("watch %d: %d events of %d writes, %d lists anew, twice: %v", n, seen, written+events, watches[n].relists.Load(), watches[n].twice.Load())
		}
	}
	last := classes[(moves-1)%len(classes)]
	eventually(t, "something is left where the plane does not lie", func() bool { return slices.Equal(l.has(t, one.UID), []string{last}) })
	t.Logf("%d moves, %d writes, none took longer than %v", moves, written, time.Duration(w.longest.Load()))
}

// writer creates ConfigMaps in a plane, one after the other.
type writer struct {
	c                apiclient.Client
	written, longest atomic.Int64
	stop, done       chan struct{}
}

func (w *writer) begin(t *testing.T) {
	w.stop, w.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(w.done)
		for n := 0; ; n++ {
			select {
			case <-w.stop:
				return
			default:
			}
			began := time.Now()
			for t.Context().Err() == nil {
				err := w.c.Do(t.Context(), http.MethodPost, configMaps, "application/json", map[string]any{"metadata": map[string]any{"name": fmt.Sprint("c", n)}}, nil)
				if err == nil || strings.Contains(err.Error(), "already exists") {
					break
				}
				time.Sleep(time.Millisecond)
			}
			w.written.Add(1)
			w.longest.Store(max(w.longest.Load(), int64(time.Since(began))))
		}
	}()
}

func (w *writer) end() {
	close(w.stop)
	<-w.done
}

// crashing ends a server as far as planes can tell: each of some has a write, at its keys, after which everything fails that the server does there.
// So one server ends at each write of a move, in many planes.
type crashing struct {
	mu     sync.Mutex
	planes map[string]*crash // by UID; guarded by mu
}

// crash is the end of a server for a plane.
type crash struct {
	left    int  // the writes until then; 0: it does not end, or has
	does    bool // the last one is carried out
	written int
	dead    bool
}

var errDead = errors.New("the process has ended")

func newCrashing() *crashing { return &crashing{planes: map[string]*crash{}} }

func (c *crashing) doom(uid types.UID, left int, does bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.planes[string(uid)] = &crash{left: left, does: does}
}

// of returns how it ends for the plane of a key; nil: it does not.
func (c *crashing) of(key string) *crash {
	for _, prefix := range []string{Prefix, storagePrefix} {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			uid, _, _ := strings.Cut(rest, "/")
			return c.planes[uid]
		}
	}
	return nil
}

// has reports whether it has ended for a plane, and how often was written there.
func (c *crashing) has(uid types.UID) (ended bool, written int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.planes[string(uid)]
	return one.dead, one.written
}

// writes counts a write, and says whether it is carried out, and whether somebody learns that.
func (c *crashing) writes(t *kv.Txn) (does, tells bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range t.Then {
		one := c.of(o.Key)
		switch {
		case one == nil:
			continue
		case one.dead:
			return false, false
		}
		one.written++
		if one.left--; one.left != 0 {
			return true, true
		}
		one.dead = true
		return one.does, false
	}
	return true, true
}

type mortal struct {
	store.DB
	of *crashing
}

// Commit is part of store.DB.
func (m *mortal) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	does, tells := m.of.writes(&t)
	if tells {
		return m.DB.Commit(ctx, t)
	}
	if does {
		_, _ = m.DB.Commit(ctx, t)
	}
	return kv.Committed{}, errDead
}

// Range is part of store.DB.
func (m *mortal) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	m.of.mu.Lock()
	one := m.of.of(r.Key)
	dead := one != nil && one.dead
	m.of.mu.Unlock()
	if dead {
		return kv.Answer{}, errDead
	}
	return m.DB.Range(ctx, r, yield)
}

// moveCrash is a plane that moves on a server that ends.
type moveCrash struct {
	name, from, to string
	uid            types.UID
	before         string // its objects
	writes         int
	does           bool
}

// crashes makes a plane that has some objects, and moves it on a server that ends for it after so many writes; 0: not at all.
func (g *ground) crashes(t *testing.T, end *crashing, from, to string, writes int, does bool) *moveCrash {
	t.Helper()
	m := &moveCrash{name: fmt.Sprintf("m%d%v-x%s-x%s", writes, does, from, to), from: from, to: to, writes: writes, does: does}
	m.uid = g.create(t, m.name, PlaneSpec{StorageClass: from}).UID
	for n := range 5 {
		g.must(t, m.name, "POST", configMaps, fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, n), nil)
	}
	var list corev1.ConfigMapList
	g.must(t, m.name, "GET", configMaps, "", &list)
	m.before = versions(&list)
	end.doom(m.uid, writes, does)
	g.wantClass(t, m.name, to)
	return m
}

// ends waits until the server has ended for a plane, or it has moved and nothing is left of it where it was, and returns how often was written.
func (g *ground) ends(t *testing.T, end *crashing, m *moveCrash) (ended bool, written int) {
	t.Helper()
	eventually(t, "the move of "+m.name+" does not end", func() bool {
		ended, written = end.has(m.uid)
		s, err := g.storageOf(t.Context(), m.uid)
		return ended || err == nil && s.class() == m.to && len(s.Left) == 0
	})
	return ended, written
}

// TestMoveCrash ends a server after each write of a move, and before it without -short. The next one finds every object, with its
// resourceVersion, goes on with the move, and leaves nothing.
func TestMoveCrash(t *testing.T) {
	t.Parallel()
	l, cfg, end := newLogs(t), settings(t.TempDir()), newCrashing()
	began := time.Now()
	took := func(what string) {
		t.Logf("%s after %v", what, time.Since(began).Round(time.Millisecond))
	}
	g := startWith(t, cfg, l.given(func(_ string, db store.DB) store.DB { return &mortal{db, end} }))
	var all []*moveCrash
	for _, path := range [][2]string{{"", "a"}, {"b", "a"}, {"a", ""}} {
		whole := g.crashes(t, end, path[0], path[1], 0, true)
		_, writes := g.ends(t, end, whole)
		if writes < 6 { // the record, the mark, the objects, the record again, what is left, and that nothing is
			t.Errorf("a move from %q to %q has only %d writes", path[0], path[1], writes)
		}
		t.Logf("a move from %q to %q has %d writes", path[0], path[1], writes)
		for n := range writes {
			all = append(all, g.crashes(t, end, path[0], path[1], n+1, true))
			if !testing.Short() {
				all = append(all, g.crashes(t, end, path[0], path[1], n+1, false))
			}
		}
	}
	took("there are planes")
	for _, m := range all {
		if ended, written := g.ends(t, end, m); !ended {
			t.Errorf("the server has not ended at write %d of the move from %q to %q, which had %d", m.writes, m.from, m.to, written)
		}
	}
	took("it has ended for all of them")
	g.killed.Store(true)
	g.stop()
	took("it has stopped")
	next := startWith(t, cfg, l.given(nil))
	took("the next one has started")
	for _, m := range all {
		m.same(t, next, "after the server has ended")
	}
	for _, m := range all {
		next.await(t, m.name, func(p *Plane) bool {
			return p.Status.storageClass() == m.to && meta.IsStatusConditionTrue(p.Status.Conditions, stored)
		})
		eventually(t, "something of "+m.name+" is left where it does not lie", func() bool { return slices.Equal(l.has(t, m.uid), []string{m.to}) })
		m.same(t, next, "after the move")
	}
	took("all have moved")
}

// same compares what a plane has with what it had before it moved.
func (m *moveCrash) same(t *testing.T, g *ground, when string) {
	t.Helper()
	var now corev1.ConfigMapList
	g.must(t, m.name, "GET", configMaps, "", &now)
	if is := versions(&now); is != m.before {
		t.Fatalf("from %q to %q, write %d (done: %v), %s:\n%s\nbefore:\n%s", m.from, m.to, m.writes, m.does, when, is, m.before)
	}
}

// versions are those of objects, without what a server makes for itself.
func versions(list *corev1.ConfigMapList) (out string) {
	for _, c := range list.Items {
		if c.Name != "kube-root-ca.crt" {
			out += fmt.Sprintf("%s %s %s\n", c.Name, c.UID, c.ResourceVersion)
		}
	}
	return out
}

// outage is a log that can be away.
type outage struct {
	store.DB
	mu   sync.Mutex
	away bool
}

var errAway = errors.New("connection refused")

func (o *outage) set(away bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away = away
}

func (o *outage) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away {
		return errAway
	}
	return nil
}

// Ping is part of store.DB.
func (o *outage) Ping(ctx context.Context) error { return errors.Join(o.err(), o.DB.Ping(ctx)) }

// Commit is part of store.DB.
func (o *outage) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	if err := o.err(); err != nil {
		return kv.Committed{}, err
	}
	return o.DB.Commit(ctx, t)
}

// Range is part of store.DB.
func (o *outage) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	if err := o.err(); err != nil {
		return kv.Answer{}, err
	}
	return o.DB.Range(ctx, r, yield)
}

// While the etcd of a storage class is away its planes wait, and say so; all others and the root go on. A plane that is deleted meanwhile
// goes when it is back.
func TestClassAway(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	var a *outage
	g := startWith(t, settings(t.TempDir()), l.given(func(name string, db store.DB) store.DB {
		if name != "a" {
			return db
		}
		a = &outage{DB: db}
		return a
	}))
	g.create(t, "one", PlaneSpec{StorageClass: "a"})
	two := g.create(t, "two", PlaneSpec{StorageClass: "a"})
	g.create(t, "other", PlaneSpec{StorageClass: "b"})
	for _, name := range []string{"one", "two", "other"} {
		g.must(t, name, "GET", configMaps, "", nil)
		g.logged(g.find(name), g.find(name).sleep())
	}
	a.set(true)
	p := g.await(t, "one", func(p *Plane) bool { return meta.IsStatusConditionFalse(p.Status.Conditions, stored) })
	if c := meta.FindStatusCondition(p.Status.Conditions, stored); c.Reason != "NoAnswer" {
		t.Errorf("%+v", c)
	}
	if s := g.State(); s == nil || len(s.Away) != 1 || s.Away[0].Class != "a" || s.Away[0].Planes != 2 || s.Away[0].Since.IsZero() {
		t.Errorf("to be found wrong: %+v", s)
	}
	if code, _ := g.ask(t, "one", "one", "GET", configMaps, ""); code != http.StatusServiceUnavailable {
		t.Error(code)
	}
	g.must(t, "other", "GET", configMaps, "", nil)
	g.create(t, "new", PlaneSpec{})
	if err := g.root.Do(t.Context(), http.MethodGet, "/readyz", "", nil, nil); err != nil {
		t.Errorf("the root is not ready: %v", err)
	}
	if err := g.root.Do(t.Context(), http.MethodDelete, planesPath+"/two", "", nil, nil); err != nil {
		t.Fatal(err)
	}
	a.set(false)
	eventually(t, "a plane that was deleted while its etcd was away stays", func() bool { return g.find("two") == nil })
	if where := l.has(t, two.UID); len(where) > 0 {
		t.Errorf("something of it is left in %q", where)
	}
	g.await(t, "one", func(p *Plane) bool { return meta.IsStatusConditionTrue(p.Status.Conditions, stored) })
	g.must(t, "one", "GET", configMaps, "", nil)
	if s := g.State(); s != nil {
		t.Errorf("nothing is wrong any more: %+v", s)
	}
}

// A plane is never taken for an empty one, or moved onto itself, because storage classes are not what they were.
func TestWrongClass(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	cfg := settings(t.TempDir())
	g := startWith(t, cfg, l.given(nil))
	p := g.create(t, "one", PlaneSpec{StorageClass: "a"})
	g.must(t, "one", "POST", configMaps, `{"metadata":{"name":"c"}}`, nil)
	g.stop()
	given := l.given(nil)
	given.Classes[0].DB = given.Classes[1].DB // another etcd
	g = startWith(t, cfg, given)
	if code, _ := g.ask(t, "one", "one", "GET", configMaps, ""); code != http.StatusServiceUnavailable {
		t.Error(code)
	}
	g.stop()
	given = l.given(nil)
	given.Classes = given.Classes[1:] // none
	g = startWith(t, cfg, given)
	if code, _ := g.ask(t, "one", "one", "GET", configMaps, ""); code != http.StatusServiceUnavailable {
		t.Error(code)
	}
	g.await(t, "one", func(p *Plane) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, stored)
		return c != nil && c.Reason == "NotConfigured"
	})
	g.stop()
	given = l.given(nil)
	given.Classes[1].DB = given.Classes[0].DB // both are one
	g = startWith(t, cfg, given)
	g.wantClass(t, "one", "b")
	g.await(t, "one", func(p *Plane) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, stored)
		return c != nil && c.Reason == "MoveFailed" && strings.Contains(c.Message, errSameLog.Error())
	})
	g.must(t, "one", "GET", configMaps+"/c", "", nil)
	if where := l.has(t, p.UID); !slices.Equal(where, []string{"a"}) {
		t.Error(where)
	}
}

// A server that has lost a plane neither writes nor reads where the plane lay, whatever it believes, and does not tell that its objects
// were removed there.
func TestTenure(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	f := &Fleet{}
	uid := types.UID("3f1c2d3e-0000-4000-8000-000000000001")
	first, err := f.fence(t.Context(), l.a, uid, true, always)
	if err != nil {
		t.Fatal(err)
	}
	var lost atomic.Int64
	before := &tenure{DB: l.a, mark: markOf(uid), rev: first, writes: true, lost: func() { lost.Add(1) }}
	key := markOf(uid) + "/configmaps/default/c"
	put, err := before.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: key, Value: []byte("1")}}})
	if err != nil || !put.Held {
		t.Fatal(put, err)
	}
	if _, err := f.fence(t.Context(), l.a, uid, false, func(context.Context) (bool, error) { return false, nil }); !errors.Is(err, errOvertaken) {
		t.Errorf("who is not the owner has replaced the mark: %v", err)
	}
	if _, err := f.fence(t.Context(), l.a, uid, false, always); err != nil {
		t.Fatal(err)
	}
	if _, err := eraseWhile(t.Context(), l.a, markOf(uid)+"/", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := before.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: key}}}); !errors.Is(err, errEnded) {
		t.Errorf("it writes: %v", err)
	}
	if _, err := before.Range(t.Context(), kv.Range{Key: key}, func(kv.KeyValue) bool { return true }); !errors.Is(err, errEnded) {
		t.Errorf("it reads: %v", err)
	}
	told := ""
	err = before.Watch(t.Context(), kv.Watch{Key: markOf(uid) + "/", Prefix: true, From: put.Rev}, func(events []kv.Event, _ int64) error {
		for _, e := range events {
			told += fmt.Sprint(string(e.Key), e.Deleted, " ")
		}
		return nil
	})
	if !errors.Is(err, errEnded) || told != key+"false " {
		t.Errorf("it is told %q, %v", told, err)
	}
	if lost.Load() == 0 {
		t.Error("it does not learn that it has lost the plane")
	}
}
