package memory

import (
	"context"
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

func all(t *testing.T, d *DB) map[string]string {
	t.Helper()
	out := map[string]string{}
	if _, err := d.Range(t.Context(), kv.Range{Key: "/", End: "0"}, func(k kv.KeyValue) bool {
		out[string(k.Key)] = string(k.Value)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func commit(t *testing.T, d *DB, ops ...kv.Op) {
	t.Helper()
	if _, err := d.Commit(t.Context(), kv.Txn{Then: ops}); err != nil {
		t.Fatal(err)
	}
}

// TestReset changes, deletes and adds keys, and takes all of that back.
func TestReset(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	first := New(c)
	commit(t, first, kv.Op{Key: "/a", Value: []byte("1")})
	commit(t, first, kv.Op{Key: "/b", Value: []byte("1")})
	commit(t, first, kv.Op{Key: "/ending", Value: []byte("1"), TTL: time.Hour})
	s := first.Snapshot().Map(func(key string, value []byte) []byte { return append([]byte(key), value...) })
	d := NewFrom(c, s)
	if got := all(t, d); len(got) != 2 || got["/a"] != "/a1" {
		t.Fatalf("begins with %v", got)
	}
	base := d.Snapshot()
	commit(t, d, kv.Op{Key: "/a", Value: []byte("changed")})
	commit(t, d, kv.Op{Key: "/b", Delete: true})
	commit(t, d, kv.Op{Key: "/c", Value: []byte("new")})
	before, err := d.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rev := d.Reset(base)
	if rev != before+1 {
		t.Errorf("reset at %d, was at %d", rev, before)
	}
	if got := all(t, d); len(got) != 2 || got["/a"] != "/a1" || got["/b"] != "/b1" {
		t.Errorf("after the reset: %v", got)
	}
	// A follower sees it as changes; who asks for older ones is told that they are gone once it is compacted.
	if err := d.Compact(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	err = d.Watch(context.WithoutCancel(t.Context()), kv.Watch{Key: "/", Prefix: true, From: 2}, func([]kv.Event, int64) error { return nil })
	if !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("a watch of what is gone: %v", err)
	}
	if again := d.Reset(base); again != rev {
		t.Errorf("a reset that changes nothing is at %d, was at %d", again, rev)
	}
}
