package keys

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

func keyOf(b byte) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(b), 32)))
}

// start is the part of a server's start that shares keys.
func start(t testing.TB, db Database, dir, key string) error {
	root, plane := settings(t, key)
	return (&Keys{}).share(t.Context(), root, plane, dir, db, clock.RealClock{}, slog.New(slog.DiscardHandler))
}

// settings are those of a server of a cluster.
func settings(t testing.TB, key string) (*config.Process, *config.Plane) {
	t.Helper()
	cfg := config.Standalone()
	cfg.EtcdServers, cfg.ClusterKey = []string{"http://etcd"}, key
	root, plane, err := cfg.Validate()
	if err != nil {
		t.Fatal(err)
	}
	return root, plane
}

func set(t testing.TB, dir string) pki.Shared {
	t.Helper()
	s, err := pki.ReadShared(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newDB(t testing.TB) *memory.DB {
	t.Helper()
	return memory.New(clock.RealClock{})
}

// Of many servers that start at once, each on a directory of its own, all have one set.
func TestServersStartAtOnce(t *testing.T) {
	t.Parallel()
	for range 50 {
		db, dirs := newDB(t), []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for _, dir := range dirs {
			wg.Go(func() {
				<-begin
				if err := start(t, db, dir, keyOf('k')); err != nil {
					t.Error(err)
				}
			})
		}
		close(begin)
		wg.Wait()
		if a, b := set(t, dirs[0]), set(t, dirs[1]); len(a) != 5 || !a.Equal(b) {
			t.Fatalf("two servers have different sets, of %d and %d files", len(a), len(b))
		}
	}
}

func TestSharedSet(t *testing.T) {
	t.Parallel()
	db, first, second := newDB(t), t.TempDir(), t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	refused := func(err error, words ...string) {
		t.Helper()
		if err == nil {
			t.Fatal("it is not refused")
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not say %q", err, w)
			}
		}
	}
	// A server that had keys of its own before makes them the cluster's.
	if _, err := pki.Ensure(pki.Options{Dir: first, Server: "https://x", Hostname: "h", Clock: clock.RealClock{}}); err != nil {
		t.Fatal(err)
	}
	before := set(t, first)
	must(start(t, db, first, keyOf('k')))
	must(start(t, db, second, keyOf('k')))
	if after := set(t, first); !after.Equal(before) || !set(t, second).Equal(before) {
		t.Error("the sets differ")
	}
	// Keys are readable only by their owner.
	for name := range before {
		info, err := os.Stat(filepath.Join(second, name))
		must(err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	// In etcd nothing of it can be read.
	_, err := db.Range(t.Context(), kv.Range{Key: "kanzen/keys/registry"}, func(k kv.KeyValue) bool {
		for _, secret := range []string{"PRIVATE", "BEGIN", base64.StdEncoding.EncodeToString([]byte("-----BEGIN"))[:12]} {
			if strings.Contains(string(k.Value), secret) {
				t.Errorf("the value in etcd has %q", secret)
			}
		}
		return true
	})
	must(err)

	refused(start(t, db, t.TempDir(), keyOf('x')), "--cluster-key-file", "another key")
	refused(start(t, db, t.TempDir(), ""), "--cluster-key-file", "same key as the others")
	other := t.TempDir()
	if _, err := pki.Ensure(pki.Options{Dir: other, Server: "https://x", Hostname: "h", Clock: clock.RealClock{}}); err != nil {
		t.Fatal(err)
	}
	refused(start(t, db, other, keyOf('k')), "differs", other, "move them away")
	must(os.Remove(filepath.Join(other, "sa.key")))
	refused(start(t, db, other, keyOf('k')), "ca.key differs")
	refused(start(t, db, t.TempDir(), "short"), "32 bytes", config.ClusterKeyVariable)

	// Another cluster key takes over while the former one is still given, and then does without.
	must(start(t, db, first, keyOf('n')+"\n"+keyOf('k')))
	must(start(t, db, second, keyOf('n')))
	refused(start(t, db, second, keyOf('k')), "another key")
}

// A server whose etcd is not there yet waits for it; one that is told to end does not.
func TestWaitsForEtcd(t *testing.T) {
	t.Parallel()
	db := &flaky{Database: newDB(t), failures: 3}
	root, plane := settings(t, keyOf('k'))
	c, err := newCluster(root, plane, db, impatient{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := c.share(t.Context(), dir); err != nil || len(set(t, dir)) != 5 || db.failures != 0 {
		t.Errorf("%v, %d failures left", err, db.failures)
	}
	db.failures = 1 << 30
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.share(ctx, dir); err == nil {
		t.Error("it goes on after its end")
	}
}

// impatient is a clock whose pauses are over at once.
type impatient struct{ clock.RealClock }

func (impatient) After(time.Duration) <-chan time.Time {
	over := make(chan time.Time)
	close(over)
	return over
}

// A server without a cluster key does not wait for etcd at its start, and is refused later if the others have a key.
func TestAsksLater(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	root, plane := settings(t, "")
	late := func(failures int) error {
		k := &Keys{}
		if err := k.share(t.Context(), root, plane, t.TempDir(), &flaky{Database: db, failures: failures}, impatient{}, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		return k.Unshared(t.Context())
	}
	if err := late(3); err != nil {
		t.Error(err)
	}
	if err := start(t, db, t.TempDir(), keyOf('k')); err != nil {
		t.Fatal(err)
	}
	if err := late(3); err == nil || !strings.Contains(err.Error(), "--cluster-key-file") {
		t.Errorf("a cluster that shares keys: %v", err)
	}
}

// A user of etcd that may not read the key goes on without it, unless it has a cluster key.
func TestForbiddenByEtcd(t *testing.T) {
	t.Parallel()
	db := &flaky{Database: newDB(t), failures: 1, err: fmt.Errorf("read: %w", rpctypes.ErrPermissionDenied)}
	if err := start(t, db, t.TempDir(), ""); err != nil || db.failures != 0 {
		t.Errorf("%v, %d failures left", err, db.failures)
	}
}

// flaky fails some times.
type flaky struct {
	Database
	failures int
	err      error // nil: no connection
}

func (f *flaky) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	if f.failures > 0 {
		f.failures--
		if f.err != nil {
			return kv.Answer{}, f.err
		}
		return kv.Answer{}, errors.New("no connection")
	}
	return f.Database.Range(ctx, r, yield)
}
