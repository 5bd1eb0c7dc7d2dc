package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

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
