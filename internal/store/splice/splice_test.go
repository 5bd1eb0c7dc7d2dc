package splice_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
	"github.com/kanzen-io/kanzen/internal/store/splice"
	"github.com/kanzen-io/kanzen/internal/store/storetest"
)

// A log of which nothing was carried is one as any other.
func TestSuite(t *testing.T) {
	storetest.RunOver(t, func(beneath store.DB) store.DB { return splice.New(splice.Part{DB: beneath}) })
}

// moving is a log whose keys are carried from one log to another now and then, and a log that stays, to which the same happens.
type moving struct {
	r      *rand.Rand
	logs   []*memory.DB
	at     int
	parts  []splice.Part
	moved  store.DB
	stays  *memory.DB
	revs   map[int64]int64 // of the log that stays, by those of the one that moves
	origin []int64         // those of the one that moves, by those of the log that stays
}

func newMoving(r *rand.Rand) *moving {
	m := &moving{r: r, stays: memory.New(clock.RealClock{}), revs: map[int64]int64{0: 0}}
	for range 3 {
		m.logs = append(m.logs, memory.New(clock.RealClock{}))
	}
	m.parts = []splice.Part{{DB: m.logs[0]}}
	m.moved = splice.New(m.parts...)
	return m
}

func (m *moving) close() {
	_ = m.stays.Close()
	for _, l := range m.logs {
		_ = l.Close()
	}
}

// head returns the newest revisions of both, which are the same from now on.
func (m *moving) head(t *testing.T) (moved, stays int64) {
	t.Helper()
	moved, err1 := m.moved.Head(t.Context())
	stays, err2 := m.stays.Head(t.Context())
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	m.revs[moved] = stays
	for int64(len(m.origin)) <= stays {
		m.origin = append(m.origin, 0)
	}
	m.origin[stays] = moved
	return moved, stays
}

// carry carries all keys into another log.
func (m *moving) carry(t *testing.T) {
	t.Helper()
	until, _ := m.head(t)
	next := (m.at + 1 + m.r.IntN(len(m.logs)-1)) % len(m.logs)
	to := m.logs[next]
	var clear, put kv.Txn
	if _, err := to.Range(t.Context(), kv.Range{Key: "k/", End: kv.PrefixEnd("k/")}, func(k kv.KeyValue) bool {
		clear.Then = append(clear.Then, kv.Op{Delete: true, Key: string(k.Key)})
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.moved.Range(t.Context(), kv.Range{Key: "k/", End: kv.PrefixEnd("k/")}, func(k kv.KeyValue) bool {
		put.Then = append(put.Then, kv.Op{Key: string(k.Key), Value: splice.Carry(k)})
		return true
	}); err != nil {
		t.Fatal(err)
	}
	put.Then = append(put.Then, kv.Op{Key: "other", Value: []byte("x")})
	var done kv.Committed
	for _, txn := range []kv.Txn{clear, put} {
		var err error
		if done, err = to.Commit(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
	}
	by := max(0, until-done.Rev)
	m.parts[len(m.parts)-1].Until = until
	m.parts = append(m.parts, splice.Part{DB: to, By: by, Since: done.Rev + by})
	m.at, m.moved = next, splice.New(m.parts...)
	m.head(t)
}

// TestAsOne asks a log whose keys move, and one in which the same happens and they stay, the same questions: all answers are the same, but
// for the numbers of revisions.
func TestAsOne(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, rand.Uint64()} {
		t.Logf("seed %d", seed)
		m := newMoving(rand.New(rand.NewPCG(seed, 0)))
		for n := range 600 {
			if n%23 == 22 {
				m.carry(t)
			}
			m.write(t)
			m.read(t)
		}
		m.close()
	}
}

func (m *moving) write(t *testing.T) {
	t.Helper()
	_, head := m.head(t)
	key := "k/" + string(rune('a'+m.r.IntN(6)))
	txn := kv.Txn{Then: []kv.Op{{Key: key, Value: fmt.Append(nil, m.r.IntN(100)), Delete: m.r.IntN(4) == 0}}, Else: []string{key}, ElseKeys: m.r.IntN(2) == 0}
	if txn.Then[0].Delete {
		txn.Then[0].Value = nil
	}
	c := kv.Condition{Key: key, Is: kv.Comparison(m.r.IntN(2)), N: m.r.Int64N(head + 1)}
	if m.r.IntN(2) == 0 { // as who has read the key
		if _, err := m.stays.Range(t.Context(), kv.Range{Key: key}, func(k kv.KeyValue) bool { c.N = k.ModRevision; return false }); err != nil {
			t.Fatal(err)
		}
	}
	own := txn
	txn.If = []kv.Condition{c}
	if c.N = m.origin[c.N]; c.N != 0 || txn.If[0].N == 0 {
		own.If = []kv.Condition{c}
	} else {
		return // that revision is of a moment between
	}
	want, err1 := m.stays.Commit(t.Context(), txn)
	got, err2 := m.moved.Commit(t.Context(), own)
	m.head(t)
	if a, b := m.committed(want, true), m.committed(got, false); a != b || err1 != nil || err2 != nil {
		t.Fatalf("%+v\ngot:  %s %v\nwant: %s %v", txn, b, err2, a, err1)
	}
}

// read asks both for a revision, and for what has happened since another.
func (m *moving) read(t *testing.T) {
	t.Helper()
	_, head := m.head(t)
	at := m.r.Int64N(head + 1)
	if m.origin[at] == 0 {
		return
	}
	q := kv.Range{Key: "k/", End: "k0", Rev: at, Limit: m.r.Int64N(3)}
	want := m.ranged(t.Context(), m.stays, q, true)
	q.Rev = m.origin[at]
	if got := m.ranged(t.Context(), m.moved, q, false); got != want {
		t.Fatalf("at %d\ngot:  %s\nwant: %s", at, got, want)
	}
	w := kv.Watch{Key: "k/", Prefix: true, From: at + 1, Until: head, Prev: true}
	if at == head {
		return
	}
	want = m.watched(t.Context(), m.stays, w, true)
	w.From, w.Until = m.origin[at]+1, m.origin[head]
	if got := m.watched(t.Context(), m.moved, w, false); got != want {
		t.Fatalf("from %d\ngot:  %s\nwant: %s", at, got, want)
	}
}

// rev is a revision as the log that stays counts it.
func (m *moving) rev(n int64, own bool) int64 {
	if own {
		return n
	}
	rev, ok := m.revs[n]
	if !ok {
		return -n
	}
	return rev
}

func (m *moving) shown(k *kv.KeyValue, own bool) string {
	if k == nil {
		return "none"
	}
	return fmt.Sprintf("%s=%s at %d", k.Key, k.Value, m.rev(k.ModRevision, own))
}

func (m *moving) committed(c kv.Committed, own bool) string {
	out := fmt.Sprint(c.Held, m.rev(c.Rev, own))
	for _, k := range c.Else {
		out += "; " + m.shown(k, own)
	}
	return out
}

func (m *moving) ranged(ctx context.Context, db store.DB, q kv.Range, own bool) (out string) {
	a, err := db.Range(ctx, q, func(k kv.KeyValue) bool { out += m.shown(&k, own) + "; "; return true })
	return out + fmt.Sprint(a.Count, a.More, err)
}

func (m *moving) watched(ctx context.Context, db store.DB, w kv.Watch, own bool) (out string) {
	err := db.Watch(ctx, w, func(events []kv.Event, _ int64) error {
		for _, e := range events {
			out += fmt.Sprint(e.Deleted, e.Created(), m.shown(&e.KeyValue, own), " was ", m.shown(&e.Prev, own), "; ")
		}
		return nil
	})
	return out + fmt.Sprint(err)
}

// What a log that the keys have left has compacted is compacted, and the newest part goes on.
func TestCompacted(t *testing.T) {
	m := newMoving(rand.New(rand.NewPCG(1, 2)))
	defer m.close()
	for range 20 {
		m.write(t)
	}
	before, _ := m.head(t)
	old := m.logs[m.at]
	m.carry(t)
	since, _ := m.head(t)
	if err := old.Compact(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	none := func([]kv.Event, int64) error { return nil }
	if _, err := m.moved.Range(t.Context(), kv.Range{Key: "k/", End: "k0", Rev: before - 1}, nil); !errors.Is(err, kv.ErrCompacted) {
		t.Error(err)
	}
	if err := m.moved.Watch(t.Context(), kv.Watch{Key: "k/", Prefix: true, From: before - 1, Until: since}, none); !errors.Is(err, kv.ErrCompacted) {
		t.Error(err)
	}
	if err := m.moved.Watch(t.Context(), kv.Watch{Key: "k/", Prefix: true, From: before + 1, Until: since}, none); err != nil {
		t.Errorf("who has seen everything has to list anew: %v", err)
	}
}
