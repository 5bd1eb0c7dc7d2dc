package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/past"
	"github.com/kanzen-io/kanzen/internal/store/pebble"
)

// keysAt is all keys of a database at a revision.
func keysAt(t *testing.T, db database, rev int64) map[string]kv.KeyValue {
	t.Helper()
	out := map[string]kv.KeyValue{}
	_, err := db.Range(t.Context(), kv.Range{Key: "\x00", End: kv.NoEnd, Rev: rev}, func(k kv.KeyValue) bool {
		out[string(k.Key)] = k
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// follow keeps the past of a database: of all kinds but events.
func follow(t *testing.T, db database) *past.Past {
	t.Helper()
	p := past.New(past.Config{Dir: filepath.Join(t.TempDir(), "history"), Log: db, Prefix: "/registry/", Bytes: 64 << 20, Clock: clock.RealClock{},
		Age: func(kind string) time.Duration {
			if kind == "events/" {
				return 0
			}
			return time.Hour
		}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := p.Reach(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	return p
}

// restored is what a server finds that begins with a snapshot: on etcd, and on pebble.
func restored(t *testing.T, saved string) []database {
	t.Helper()
	dir := t.TempDir()
	if err := snapshot.RestoreData(t.Context(), saved, filepath.Join(dir, "etcd"), snapshot.SoleMember(), 0); err != nil {
		t.Fatal(err)
	}
	one, err := etcd.OpenEmbedded(t.Context(), etcd.Embedded{Dir: filepath.Join(dir, "etcd"), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = one.Close() })
	config := pebble.Config{Dir: filepath.Join(dir, "pebble"), UnsafeNoFsync: true}
	if _, err := pebble.Import(t.Context(), saved, config); err != nil {
		t.Fatal(err)
	}
	two, err := pebble.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = two.Close() })
	if _, err := two.Check(t.Context()); err != nil {
		t.Errorf("what pebble makes of it: %v", err)
	}
	return []database{one, two}
}

// TestAt saves what a database held at moments before and after its compaction, while it is written to, and compares that with what it was.
func TestAt(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, db database) {
		seed := time.Now().UnixNano()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		commit(t, db, kv.Op{Key: "/registry/pods/a/first", Value: []byte("1")})
		p := follow(t, db)
		was := map[int64]map[string]kv.KeyValue{}
		churn := func(n int) {
			for range n {
				o := kv.Op{Key: fmt.Sprintf("/registry/%s/default/%d", []string{"pods", "secrets", "services/specs"}[r.IntN(3)], r.IntN(40)), Value: fmt.Append(nil, r.Uint64())}
				if o.Delete = r.IntN(4) == 0; o.Delete {
					o.Value = nil
				}
				rev := commit(t, db, o, kv.Op{Key: fmt.Sprintf("/registry/events/default/%d", r.IntN(50)), Value: fmt.Append(nil, r.Uint64()), TTL: time.Hour},
					kv.Op{Key: fmt.Sprintf("/kanzen/other/%d", r.IntN(20)), Value: fmt.Append(nil, r.Uint64())})
				if r.IntN(20) == 0 {
					was[rev] = keysAt(t, db, rev)
				}
			}
		}
		churn(400)
		head, err := db.Head(t.Context())
		if err == nil {
			err = errors.Join(p.Reach(t.Context(), head), db.Compact(t.Context(), head-100))
		}
		if err != nil {
			t.Fatal(err)
		}
		compacted := head - 100
		churn(200)

		at := &snapshot.At{DB: db, Beyond: p, Dir: filepath.Join(t.TempDir(), "work")}
		stop := make(chan struct{})
		written := make(chan struct{})
		go func() {
			defer close(written)
			pace := time.NewTicker(2 * time.Millisecond) // each snapshot reads all of it
			defer pace.Stop()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-pace.C:
					_, _ = db.Commit(context.Background(), kv.Txn{Then: []kv.Op{{Key: fmt.Sprintf("/registry/pods/default/%d", n%40), Value: []byte("later")}}})
				}
			}
		}()
		before, opened := 0, 0
		for rev, want := range was {
			saved := saveAt(t, at, rev)
			if rev < compacted {
				before++
			}
			compareAt(t, p, saved, rev, rev < compacted, want)
			if opened++; opened > 4 {
				continue
			}
			for _, made := range restored(t, saved) {
				if head, err := made.Head(t.Context()); err != nil || head != rev {
					t.Errorf("revision %d: the restored database is at %d, %v", rev, head, err)
				}
				if got := keysAt(t, made, 0); rev >= compacted && len(got) != len(want) {
					t.Errorf("revision %d: the restored database has %d keys, want %d", rev, len(got), len(want))
				}
				commit(t, made, kv.Op{Key: "/registry/pods/default/1", Value: []byte("goes on")})
			}
		}
		close(stop)
		<-written
		if before == 0 || before == len(was) {
			t.Errorf("%d of %d moments were before the compaction", before, len(was))
		}
		if _, err := at.Stream(t.Context(), head+1_000_000); !errors.Is(err, kv.ErrFuture) {
			t.Errorf("the future: %v", err)
		}
		if _, err := (&snapshot.At{DB: db, Dir: at.Dir}).Stream(t.Context(), compacted-1); !errors.Is(err, kv.ErrCompacted) {
			t.Errorf("without a history: %v", err)
		}
		if _, err := at.Stream(t.Context(), 1); !errors.Is(err, kv.ErrCompacted) {
			t.Errorf("before the history: %v", err)
		}
		if left, err := os.ReadDir(at.Dir); err != nil || len(left) > 0 {
			t.Errorf("%v is left, %v", left, err)
		}
	})
}

func saveAt(t *testing.T, at *snapshot.At, rev int64) string {
	t.Helper()
	stream, err := at.Stream(t.Context(), rev)
	if err != nil {
		t.Fatalf("revision %d: %v", rev, err)
	}
	path := filepath.Join(t.TempDir(), "saved.db")
	if err := errors.Join(snapshot.Save(t.Context(), stream, path, nil), stream.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// compareAt compares a snapshot with what was at a revision. Before the compaction, what has no history need not be the same, and it is not
// known how often a key was changed.
func compareAt(t *testing.T, p *past.Past, saved string, rev int64, before bool, want map[string]kv.KeyValue) {
	t.Helper()
	f, err := snapshot.Open(t.Context(), saved)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Revision != rev {
		t.Errorf("the snapshot of revision %d is of %d", rev, f.Revision)
	}
	got := map[string]kv.KeyValue{}
	err = f.Records(t.Context(), kv.Reading{}, func(r *kv.Record) error {
		if r.Newest && !r.Deleted {
			got[string(r.Key)] = kv.KeyValue{Value: append([]byte(nil), r.Value...), CreateRevision: r.CreateRevision, ModRevision: r.ModRevision, Version: r.Version}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for key, w := range want {
		g, ok := got[key]
		delete(got, key)
		switch {
		case before && !p.KeepsKey(key):
			if !ok {
				t.Errorf("%s is missing", key)
			}
		case !ok || string(g.Value) != string(w.Value) || g.ModRevision != w.ModRevision:
			t.Errorf("at %d, %s: %+v, want %+v", rev, key, g, w)
		case g.CreateRevision != w.CreateRevision && !(before && g.CreateRevision == 1), !before && g.Version != w.Version, (g.Version == 1) != (g.CreateRevision == g.ModRevision):
			t.Errorf("at %d, %s: created at %d, version %d, want %+v", rev, key, g.CreateRevision, g.Version, w)
		}
	}
	for key := range got {
		if p.KeepsKey(key) || !before {
			t.Errorf("at %d, there was no %s", rev, key)
		}
	}
}
