package shift_test

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
	"github.com/kanzen-io/kanzen/internal/store/shift"
	"github.com/kanzen-io/kanzen/internal/store/storetest"
)

// A log that is not shifted, and of which everything can be read, is one as any other.
func TestSuite(t *testing.T) {
	storetest.RunOver(t, func(beneath store.DB) store.DB { return shift.New(beneath, 0, 0) })
}

// TestAsBeneath asks a shifted log, and one to which the same happens, the same questions: all revisions in the answers differ by the shift.
func TestAsBeneath(t *testing.T) {
	const by = 1_000_000
	for _, seed := range []uint64{1, 2, 3, rand.Uint64()} {
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		beneath, plain := memory.New(clock.RealClock{}), memory.New(clock.RealClock{})
		shifted := shift.New(beneath, by, by)
		var head int64
		for range 400 {
			txn, own := transaction(r, head, by)
			want, err1 := plain.Commit(t.Context(), txn)
			got, err2 := shifted.Commit(t.Context(), own)
			if head = want.Rev; fmt.Sprint(committed(got, by), err2) != fmt.Sprint(committed(want, 0), err1) {
				t.Fatalf("%+v\ngot:  %s %v\nwant: %s %v", txn, committed(got, by), err2, committed(want, 0), err1)
			}
			at := 1 + r.Int64N(head)
			q := kv.Range{Key: "a", End: "z", Rev: at, Limit: r.Int64N(3)}
			a := ranged(t.Context(), plain, q, 0)
			q.Rev += by
			if b := ranged(t.Context(), shifted, q, by); a != b {
				t.Fatalf("at %d\ngot:  %s\nwant: %s", at, b, a)
			}
			w := kv.Watch{Key: "", Prefix: true, From: at + 1, Until: head, Prev: true}
			if w.From > w.Until {
				continue
			}
			c := watched(t.Context(), plain, w, 0)
			w.From, w.Until = w.From+by, w.Until+by
			if d := watched(t.Context(), shifted, w, by); c != d {
				t.Fatalf("from %d\ngot:  %s\nwant: %s", at, d, c)
			}
		}
		_, _ = beneath.Close(), plain.Close()
	}
}

// transaction is one of a log, and the same of the shifted one.
func transaction(r *rand.Rand, head, by int64) (txn, own kv.Txn) {
	key := string(rune('a' + r.IntN(5)))
	txn.Then = []kv.Op{{Key: key, Value: fmt.Append(nil, r.IntN(100)), Delete: r.IntN(4) == 0}}
	if txn.Then[0].Delete {
		txn.Then[0].Value = nil
	}
	txn.Else = []string{key}
	c := kv.Condition{Key: key, Is: kv.Comparison(r.IntN(3)), N: r.Int64N(head + 2)}
	txn.If = []kv.Condition{c}
	if c.Is != kv.Version && c.N != 0 {
		c.N += by
	}
	return txn, kv.Txn{If: []kv.Condition{c}, Then: txn.Then, Else: txn.Else}
}

func shown(k *kv.KeyValue, by int64) string {
	if k == nil {
		return "none"
	}
	less := func(rev int64) int64 {
		if rev == 0 {
			return 0
		}
		return rev - by
	}
	return fmt.Sprintf("%s=%s %d %d %d", k.Key, k.Value, less(k.CreateRevision), less(k.ModRevision), k.Version)
}

func committed(c kv.Committed, by int64) string {
	out := fmt.Sprint(c.Held, c.Rev-by)
	for _, k := range c.Else {
		out += "; " + shown(k, by)
	}
	return out
}

func ranged(ctx context.Context, db store.DB, q kv.Range, by int64) (out string) {
	a, err := db.Range(ctx, q, func(k kv.KeyValue) bool { out += shown(&k, by) + "; "; return true })
	return out + fmt.Sprint(a.Rev-by, a.Count, a.More, err)
}

func watched(ctx context.Context, db store.DB, w kv.Watch, by int64) (out string) {
	err := db.Watch(ctx, w, func(events []kv.Event, _ int64) error {
		for _, e := range events {
			out += fmt.Sprint(e.Deleted, shown(&e.KeyValue, by), " was ", shown(&e.Prev, by), "; ")
		}
		return nil
	})
	return out + fmt.Sprint(err)
}

// What is before the first revision cannot be read, whatever the log beneath has there.
func TestBefore(t *testing.T) {
	beneath := memory.New(clock.RealClock{})
	defer beneath.Close()
	for n := range 5 {
		if _, err := beneath.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "a", Value: fmt.Append(nil, n)}}}); err != nil {
			t.Fatal(err)
		}
	}
	head, err := beneath.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const by = 100
	since := head + by
	d := shift.New(beneath, by, since)
	deliver := func([]kv.Event, int64) error { return nil }
	for _, rev := range []int64{1, by, by + 1, since - 1} {
		if _, err := d.Range(t.Context(), kv.Range{Key: "a", Rev: rev}, nil); !errors.Is(err, kv.ErrCompacted) {
			t.Errorf("range at %d: %v", rev, err)
		}
		if err := d.Watch(t.Context(), kv.Watch{Key: "a", From: rev + 1, Until: since}, deliver); !errors.Is(err, kv.ErrCompacted) {
			t.Errorf("watch from %d: %v", rev+1, err)
		}
		if err := d.Compact(t.Context(), rev); !errors.Is(err, kv.ErrCompacted) {
			t.Errorf("compact at %d: %v", rev, err)
		}
	}
	got := ranged(t.Context(), d, kv.Range{Key: "a", Rev: since}, 0)
	if want := fmt.Sprintf("a=4 %d %d 5; %d 1 false <nil>", head-4+by, since, since); got != want {
		t.Errorf("at the first revision: %s, not %s", got, want)
	}
	// A condition of before never holds.
	done, err := d.Commit(t.Context(), kv.Txn{If: []kv.Condition{{Key: "b", N: by}}, Then: []kv.Op{{Key: "b"}}})
	if err != nil || done.Held {
		t.Errorf("a key that does not exist had a revision of before: %+v %v", done, err)
	}
}

// A revision below zero is no key's, and none of a key that does not exist.
func TestBelowZero(t *testing.T) {
	beneath := memory.New(clock.RealClock{})
	t.Cleanup(func() { _ = beneath.Close() })
	db := shift.New(beneath, 10, 0)
	done, err := db.Commit(t.Context(), kv.Txn{If: []kv.Condition{{Key: "a", Is: kv.ModRevisionAtMost, N: -1}}, Then: []kv.Op{{Key: "a"}}})
	if err != nil || done.Held {
		t.Errorf("%+v, %v", done, err)
	}
}
