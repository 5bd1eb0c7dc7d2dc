package pebble_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/pebble"
	"github.com/kanzen-io/kanzen/internal/store/tree"
)

// acknowledged is what writers and readers were told: none of it may be lost.
type acknowledged struct {
	mu   sync.Mutex
	head int64
	keys map[string]int64 // the newest revision of each
}

func (a *acknowledged) read(head int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.head = max(a.head, head)
}

func (a *acknowledged) wrote(key string, rev int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys[key], a.head = rev, max(a.head, rev)
}

func (a *acknowledged) copy() *acknowledged {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := &acknowledged{head: a.head, keys: map[string]int64{}}
	for key, rev := range a.keys {
		out.keys[key] = rev
	}
	return out
}

// check returns an error if something acknowledged is lost, or if the history has a hole.
func (a *acknowledged) check(ctx context.Context, db *pebble.DB) error {
	head, err := db.Head(ctx)
	if err != nil || head < a.head {
		return fmt.Errorf("it is at revision %d, %v; somebody was shown %d", head, err, a.head)
	}
	found := map[string]kv.KeyValue{}
	if _, err := db.Range(ctx, kv.Range{End: kv.NoEnd}, func(k kv.KeyValue) bool { found[string(k.Key)] = k; return true }); err != nil {
		return err
	}
	for key, rev := range a.keys {
		if k, ok := found[key]; !ok || k.ModRevision < rev || string(k.Value) != fmt.Sprint(key, "=", k.Version) {
			return fmt.Errorf("%s was written at %d; there is %q at %d", key, rev, k.Value, k.ModRevision)
		}
	}
	next, enough := int64(2), errors.New("enough")
	err = db.Watch(ctx, kv.Watch{Prefix: true, From: next, Until: head}, func(events []kv.Event, rev int64) error {
		for _, e := range events {
			if e.ModRevision != next {
				return fmt.Errorf("after revision %d comes %d", next-1, e.ModRevision)
			}
			next++
		}
		if rev == head {
			return enough
		}
		return nil
	})
	if head >= 2 && !errors.Is(err, enough) {
		return fmt.Errorf("its history ends at %d of %d: %w", next-1, head, err)
	}
	_, err = db.Check(ctx)
	return err
}

// write has some writers write until stop, and readers look at the head.
func (a *acknowledged) write(ctx context.Context, db *pebble.DB, stop <-chan struct{}) *sync.WaitGroup {
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			key, version := fmt.Sprintf("k/%d", n), int64(0)
			a.mu.Lock()
			rev := a.keys[key]
			a.mu.Unlock()
			if rev > 0 {
				_, _ = db.Range(ctx, kv.Range{Key: key}, func(k kv.KeyValue) bool { version, rev = k.Version, k.ModRevision; return true })
			}
			for {
				select {
				case <-stop:
					return
				default:
				}
				version++
				done, err := db.Commit(ctx, kv.Txn{If: []kv.Condition{{Key: key, N: rev}}, Then: []kv.Op{{Key: key, Value: fmt.Append(nil, key, "=", version)}}})
				if err != nil || !done.Held {
					return
				}
				rev = done.Rev
				a.wrote(key, rev)
				if head, err := db.Head(ctx); err == nil {
					a.read(head)
				}
			}
		})
	}
	return &all
}

// TestPowerLoss cuts the power while clients write: of what was not synced any part is on disk. Nothing that anybody was told is lost.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	fs, told := vfs.NewCrashableMem(), &acknowledged{keys: map[string]int64{}}
	cuts := 40
	if testing.Short() {
		cuts = 8 // the race detector makes them ten times slower, and each has the same goroutines
	}
	for cut := range cuts {
		db, err := pebble.Open(pebble.Config{Dir: "db", FS: fs})
		if err != nil {
			t.Fatalf("after %d cuts: %v", cut, err)
		}
		if err := told.check(t.Context(), db); err != nil {
			t.Fatalf("after %d cuts: %v", cut, err)
		}
		stop := make(chan struct{})
		writing := told.write(t.Context(), db, stop)
		for first, some := headOf(t, db), int64(r.IntN(200)); headOf(t, db) < first+some; { // so that cuts come at all times of a write
		}
		was := told.copy() // before the cut: what is acknowledged after it is not on this disk
		cutFS := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(101), RNG: r})
		close(stop)
		writing.Wait()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		fs, told = cutFS, was
	}
}

// TestPowerLossAtTheEnd cuts the power at each operation on files while a database is closed. The next one takes what it finds.
func TestPowerLossAtTheEnd(t *testing.T) {
	t.Parallel()
	fs, told := vfs.NewCrashableMem(), &acknowledged{keys: map[string]int64{}}
	var closing atomic.Bool
	var mu sync.Mutex
	var cuts []*vfs.MemFS
	r := rand.New(rand.NewPCG(1, 2))
	db, err := pebble.Open(pebble.Config{Dir: "db", FS: errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if closing.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			mu.Lock()
			defer mu.Unlock()
			cuts = append(cuts, fs.CrashClone(vfs.CrashCloneCfg{}), fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: r}))
		}
		return nil
	}))})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 10 {
		key := fmt.Sprintf("k/%d", n)
		done, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: key, Value: fmt.Append(nil, key, "=1")}}})
		if err != nil {
			t.Fatal(err)
		}
		told.wrote(key, done.Rev)
	}
	closing.Store(true)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for n, cut := range cuts {
		again, err := pebble.Open(pebble.Config{Dir: "db", FS: cut})
		if err != nil {
			t.Fatalf("cut %d of %d: %v", n, len(cuts), err)
		}
		if err := told.check(t.Context(), again); err != nil {
			t.Errorf("cut %d of %d: %v", n, len(cuts), err)
		}
		_ = again.Close()
	}
	if len(cuts) < 10 {
		t.Errorf("only %d cuts", len(cuts))
	}
}

func headOf(t *testing.T, db *pebble.DB) int64 {
	t.Helper()
	head, err := db.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// TestFailingDisk has the disk fail while clients write: writes of a file, or waiting for them. The database says so and gives up, the process
// goes on, and the next one finds all that was acknowledged.
func TestFailingDisk(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string][]errorfs.OpKind{
		"write": {errorfs.OpFileWrite, errorfs.OpFileWriteAt},
		"sync":  {errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo},
		"all":   {errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo, errorfs.OpCreate, errorfs.OpRename},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs, told := vfs.NewCrashableMem(), &acknowledged{keys: map[string]int64{}}
			var left atomic.Int64
			left.Store(1 << 40)
			failing := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if slices.Contains(kinds, op.Kind) && left.Add(-1) < 0 {
					return syscall.ENOSPC
				}
				return nil
			}))
			db, err := pebble.Open(pebble.Config{Dir: "db", FS: failing})
			if err != nil {
				t.Fatal(err)
			}
			left.Store(20)
			told.write(t.Context(), db, nil).Wait() // until writes fail
			<-db.Broken()
			if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "more"}}}); !errors.Is(err, tree.ErrBroken) || !errors.Is(db.Err(), syscall.ENOSPC) {
				t.Errorf("afterwards: %v, %v", err, db.Err())
			}
			disk := fs.CrashClone(vfs.CrashCloneCfg{})
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			again, err := pebble.Open(pebble.Config{Dir: "db", FS: disk})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = again.Close() }()
			if err := told.check(t.Context(), again); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDamage flips a bit in a file of a database that was closed. It opens and has everything, or says that it is damaged, when it is
// opened or when the damage is met; and never gives something else.
func TestDamage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	db, err := pebble.Open(pebble.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	told := &acknowledged{keys: map[string]int64{}}
	for n := range 300 {
		key := fmt.Sprintf("k/%d", n%50)
		done, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: key, Value: fmt.Append(nil, key, "=", n/50+1)}}})
		if err != nil {
			t.Fatal(err)
		}
		told.wrote(key, done.Rev)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var tried, silent, refused atomic.Int32
	for _, f := range files {
		whole, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil || len(whole) == 0 {
			continue
		}
		for range 12 {
			broken := filepath.Join(t.TempDir(), "db")
			if err := os.CopyFS(broken, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			changed := append([]byte(nil), whole...)
			if at := r.IntN(len(changed)); r.IntN(3) == 0 {
				changed = changed[:at]
			} else {
				changed[at] ^= 1 << r.IntN(8)
			}
			if err := os.WriteFile(filepath.Join(broken, f.Name()), changed, 0o600); err != nil {
				t.Fatal(err)
			}
			tried.Add(1)
			db, err := pebble.Open(pebble.Config{Dir: broken})
			if err != nil {
				refused.Add(1)
				continue
			}
			if err := told.check(t.Context(), db); err != nil {
				if head, _ := db.Head(t.Context()); head < told.head {
					silent.Add(1)
					t.Errorf("%s: %v", f.Name(), err)
				}
			}
			_ = db.Close()
		}
	}
	t.Logf("%d damages, %d refused at the start, %d lost something without a word", tried.Load(), refused.Load(), silent.Load())
}
