package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// TestCheck takes single entries out of the tree, and puts others in: the rest of the tree contradicts each.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*pebble.Batch) error{
		"":                   func(b *pebble.Batch) error { return nil },
		"a record":           func(b *pebble.Batch) error { return b.Delete(recordKey("a", 4), nil) },
		"an older record":    func(b *pebble.Batch) error { return b.Delete(recordKey("a", 3), nil) },
		"a revision":         func(b *pebble.Batch) error { return b.Delete(revisionKey(4), nil) },
		"an end":             func(b *pebble.Batch) error { return b.DeleteRange([]byte{endsSpace}, spaceEnd(endsSpace), nil) },
		"an end of none":     func(b *pebble.Batch) error { return b.Set(endKey(math.MaxInt64, "a"), nil, nil) }, // one that has come is cleared away
		"no record":          func(b *pebble.Batch) error { return b.Set(recordKey("a", 9), []byte{0x80}, nil) },
		"a deletion of none": func(b *pebble.Batch) error { return b.Set(revisionKey(4), appendChange(nil, "a", true), nil) },
		"a version": func(b *pebble.Batch) error {
			return b.Set(recordKey("a", 4), (&record{created: 2, version: 7}).head(nil), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := Open(Config{Dir: t.TempDir(), UnsafeNoFsync: true})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = d.Close() }()
			for n := range 3 { // revisions 2 to 4
				if _, err := d.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "a", Value: fmt.Append(nil, n)}}}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := d.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "b", TTL: time.Hour}}}); err != nil {
				t.Fatal(err)
			}
			b := d.tree.NewBatch()
			if err := spoil(b); err != nil {
				t.Fatal(err)
			}
			if err := d.tree.Apply(b, pebble.NoSync); err != nil {
				t.Fatal(err)
			}
			c, err := d.Check(t.Context())
			if (err == nil) != (name == "") || err != nil && !strings.Contains(err.Error(), "damaged") && !strings.Contains(err.Error(), "not found") {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
}

// TestQuota fills a database beyond its quota: it takes no more, but what makes room.
func TestQuota(t *testing.T) {
	t.Parallel()
	d, err := Open(Config{Dir: t.TempDir(), UnsafeNoFsync: true, Quota: 20 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	put := func(n int) error {
		_, err := d.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: fmt.Sprint(n), Value: bytes.Repeat([]byte{byte(n), byte(n >> 8)}, 1<<18)}}})
		d.quota.mu.Lock()
		d.quota.read = time.Time{} // the next one measures
		d.quota.mu.Unlock()
		return err
	}
	// A compaction that ends between the two questions makes room: more is written then.
	full := func() bool {
		return errors.Is(put(0), kv.ErrNoSpace) && errors.Is(d.Writable(t.Context()), kv.ErrNoSpace)
	}
	n := 1
	for ; n < 200 && !full(); n++ {
		if err := put(n); err != nil && !errors.Is(err, kv.ErrNoSpace) {
			t.Fatal(err)
		}
	}
	if n == 200 {
		t.Fatalf("after %d values of 512 KiB: %v", n, d.Writable(t.Context()))
	}
	if _, err := d.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "0", Delete: true}}}); err != nil {
		t.Error(err)
	}
}

// TestSoonerEnd has an end come that is before the one that is waited for, after one that is not: it is not missed.
func TestSoonerEnd(t *testing.T) {
	t.Parallel()
	e := newExpiry(&DB{clock: clock.RealClock{}})
	for _, c := range []struct {
		waits int64
		ends  []int64
		woken bool
	}{{0, []int64{9}, true}, {5, []int64{9}, false}, {5, []int64{9, 3}, true}, {5, []int64{9, 3, 8, 4}, true}, {5, []int64{5}, false}} {
		e.waitsFor(c.waits)
		for _, at := range c.ends {
			e.wake(at)
		}
		if woken := len(e.sooner) > 0; woken != c.woken {
			t.Errorf("%+v: woken %t", c, woken)
		}
		if c.woken {
			e.sleep(t.Context(), time.Hour)
		}
	}
}

// TestStaleEnd: what is said to end, and does not, is forgotten, and not looked at for ever.
func TestStaleEnd(t *testing.T) {
	t.Parallel()
	d, err := Open(Config{Dir: t.TempDir(), UnsafeNoFsync: true, KeepEnded: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if _, err := d.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "a"}}}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		if err := d.tree.Set(endKey(1, key), nil, pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if next, err := d.expiry.expire(t.Context()); next != 1 || err != nil {
		t.Errorf("%d, %v", next, err)
	}
	if next, err := d.expiry.expire(t.Context()); next != 0 || err != nil {
		t.Errorf("again: %d, %v", next, err)
	}
	if c, err := d.Check(t.Context()); c.Keys != 1 || c.Ends != 0 || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestSnapshotsLeft opens a database beside what snapshots have left that were cut off, in a directory whose name is a pattern.
func TestSnapshotsLeft(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "[a")
	left := filepath.Join(dir, "snapshot-1")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := Open(Config{Dir: dir, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is left: %v", err)
	}
}
