package memory

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

var seed = flag.Uint64("seed", 0, "of the comparison with etcd; 0: a new one each time")

// The same operations get the same answers here and from etcd.
func TestLikeEtcd(t *testing.T) {
	e, err := etcd.OpenEmbedded(t.Context(), etcd.Embedded{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	m := New(clock.RealClock{})
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-seed=%d", s)
	r := rand.New(rand.NewPCG(s, 0))
	compacted := int64(0)
	for n := range 1500 {
		rev := m.rev - r.Int64N(min(m.rev, 30)) + r.Int64N(3)
		var ask func(db store.DB) string
		switch r.IntN(10) {
		case 0, 1, 2, 3:
			txn := randomTxn(r, m.rev)
			ask = func(db store.DB) string {
				done, err := db.Commit(t.Context(), txn)
				return fmt.Sprintf("commit %+v: held %v, revision %d, else %s, failed %v", txn, done.Held, done.Rev, one(done.Else...), err != nil)
			}
		case 4, 5, 6:
			q := randomRange(r, rev)
			ask = func(db store.DB) string {
				text := ""
				answer, err := db.Range(t.Context(), q, func(k kv.KeyValue) bool { text += one(&k); return true })
				return fmt.Sprintf("%+v: %s, %+v, %v", q, text, answer, err)
			}
		case 7, 8:
			if r.IntN(15) > 0 {
				continue // etcd takes a tenth of a second for each
			}
			w := kv.Watch{Key: randomKey(r), Prefix: r.IntN(2) == 0, From: max(1, rev-r.Int64N(10)), Until: m.rev, Prev: r.IntN(2) == 0}
			if w.From < compacted {
				w.From = max(1, compacted-r.Int64N(2))
			}
			ask = func(db store.DB) string { return fmt.Sprintf("%+v: %s", w, watched(t, db, w)) }
		default:
			if r.IntN(4) > 0 {
				continue
			}
			compacted = max(compacted, min(rev, m.rev))
			ask = func(db store.DB) string { return fmt.Sprint("compact ", rev, db.Compact(t.Context(), rev)) }
		}
		if got, want := ask(m), ask(e); got != want {
			t.Fatalf("after %d operations\nmemory: %s\netcd:   %s", n, got, want)
		}
	}
}

func randomKey(r *rand.Rand) string { return []string{"a", "ab", "abc", "b", "b/c"}[r.IntN(5)] }

func randomTxn(r *rand.Rand, rev int64) (t kv.Txn) {
	for range r.IntN(3) {
		c := kv.Condition{Key: randomKey(r), Is: kv.Comparison(r.IntN(3)), N: rev - r.Int64N(20)}
		if c.Is == kv.Version {
			c.N = r.Int64N(3)
		}
		if r.IntN(3) == 0 {
			c.N = 0
		}
		t.If = append(t.If, c)
	}
	for range 1 + r.IntN(3) {
		t.Then = append(t.Then, kv.Op{Key: randomKey(r), Delete: r.IntN(4) == 0, Value: fmt.Append(nil, r.IntN(1000))})
	}
	slices.SortFunc(t.Then, func(a, b kv.Op) int { return slices.Compare([]byte(a.Key), []byte(b.Key)) })
	t.Then = slices.CompactFunc(t.Then, func(a, b kv.Op) bool { return a.Key == b.Key })
	if r.IntN(2) == 0 {
		t.Else, t.ElseKeys = []string{randomKey(r), randomKey(r)}[:1+r.IntN(2)], r.IntN(2) == 0
	}
	return t
}

func randomRange(r *rand.Rand, rev int64) kv.Range {
	q := kv.Range{Key: randomKey(r), Rev: rev, CountOnly: r.IntN(4) == 0, Limit: r.Int64N(3)}
	if r.IntN(2) == 0 {
		q.Rev = 0
	}
	if r.IntN(2) == 0 {
		q.End = kv.PrefixEnd(q.Key)
	}
	return q
}

func one(all ...*kv.KeyValue) (text string) {
	for _, k := range all {
		if k == nil {
			text += "none "
			continue
		}
		text += fmt.Sprintf("%s=%s(%d,%d,%d) ", k.Key, k.Value, k.CreateRevision, k.ModRevision, k.Version)
	}
	return text
}

// watched returns as text what a watch that has an end delivers.
func watched(t *testing.T, db store.DB, w kv.Watch) string {
	text, last := "", w.From-1
	err := db.Watch(t.Context(), w, func(events []kv.Event, rev int64) error {
		for _, e := range events {
			text += fmt.Sprintf("%v %s<%s", e.Deleted, one(&e.KeyValue), one(&e.Prev))
		}
		last = max(last, rev)
		return nil
	})
	return fmt.Sprintf("%s up to %d, %v", text, last, err)
}

func put(t *testing.T, db *DB, op kv.Op) {
	t.Helper()
	if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{op}}); err != nil {
		t.Fatal(err)
	}
}

// Keys end after their time, those that end at one time at one revision.
func TestExpiry(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	db := New(c)
	defer db.Close()
	for _, key := range []string{"a", "b", "freed", "kept", "moved"} {
		put(t, db, kv.Op{Key: key, TTL: 10 * time.Second})
	}
	put(t, db, kv.Op{Key: "freed"})
	put(t, db, kv.Op{Key: "kept", KeepTTL: true})
	put(t, db, kv.Op{Key: "moved", TTL: time.Minute})
	rev := db.rev
	c.Step(9 * time.Second)
	if db.rev != rev {
		t.Fatal("they ended early")
	}
	c.Step(time.Second)
	if got, want := ended(t, db, rev+1), "a b kept "; got != want {
		t.Errorf("first %q ended, want %q", got, want)
	}
	c.Step(50*time.Second + kv.Late(time.Minute))
	if got, want := ended(t, db, rev+2), "moved "; got != want {
		t.Errorf("then %q ended, want %q", got, want)
	}
}

// ended returns the keys that were deleted at a revision.
func ended(t *testing.T, db *DB, rev int64) (keys string) {
	t.Helper()
	if err := db.Watch(t.Context(), kv.Watch{Prefix: true, From: rev, Until: rev}, func(events []kv.Event, _ int64) error {
		for _, e := range events {
			if e.Deleted {
				keys += string(e.Key) + " "
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return keys
}

// Faults hit the operation that they count up to, and no other.
func TestFaults(t *testing.T) {
	db := New(clock.RealClock{})
	boom := errors.New("boom")
	commit := func(ctx context.Context, key string) error {
		_, err := db.Commit(ctx, kv.Txn{Then: []kv.Op{{Key: key}}})
		return err
	}
	db.Inject(Fault{Of: Commit, Skip: 1, Err: boom})
	db.Inject(Fault{Of: Commit | Head, Skip: 3, Err: boom, Lost: true})
	var got []error
	for _, key := range []string{"a", "failed", "b", "lost", "c"} {
		_ = db.Ping(t.Context())
		got = append(got, commit(t.Context(), key))
	}
	if want := []error{nil, boom, nil, boom, nil}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	db.Inject(Fault{Before: func(context.Context) { cancel() }})
	if err := commit(ctx, "cancelled"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled in the middle: %v", err)
	}
	db.Inject(Fault{Before: func(ctx context.Context) { _ = commit(ctx, "between") }})
	if err := commit(t.Context(), "d"); err != nil || db.Injected() != 0 {
		t.Errorf("after another: %v, %d faults left", err, db.Injected())
	}
	keys := ""
	if _, err := db.Range(t.Context(), kv.Range{Key: "a", End: "z"}, func(k kv.KeyValue) bool {
		keys += fmt.Sprintf("%s:%d ", k.Key, k.ModRevision)
		return true
	}); err != nil {
		t.Error(err)
	}
	if want := "a:2 b:3 between:6 c:5 d:7 lost:4 "; keys != want {
		t.Errorf("got %s, want %s", keys, want)
	}
}

// A watch that is broken off returns an error, after it has delivered the
// earlier events.
func TestBreak(t *testing.T) {
	db := New(clock.RealClock{})
	put(t, db, kv.Op{Key: "a"})
	err := db.Watch(t.Context(), kv.Watch{Key: "a", From: 2}, func(events []kv.Event, rev int64) error {
		if len(events) != 1 || rev != 2 {
			t.Errorf("%d events up to %d", len(events), rev)
		}
		db.Break()
		return nil
	})
	if !errors.Is(err, ErrBroken) {
		t.Errorf("got %v", err)
	}
}
