package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/base/space"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

func open(t *testing.T, e Embedded) *DB {
	t.Helper()
	e.UnsafeNoFsync = true
	db, err := OpenEmbedded(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func write(ctx context.Context, db *DB, key string, size int) error {
	_, err := db.Commit(ctx, kv.Txn{Then: []kv.Op{{Key: key, Value: bytes.Repeat([]byte{'x'}, size)}}})
	return err
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

// TestQuota fills the quota by writing one key again and again: the history is what fills it, so that etcd takes writes
// again by itself. Then it is filled by what is there, and takes writes again once some of that is deleted.
func TestQuota(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := open(t, Embedded{Dir: t.TempDir(), QuotaBytes: 16 << 20, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	fill := func(key func(n int) string) (n int) {
		t.Helper()
		for ; ; n++ {
			err := write(ctx, db, key(n), 512<<10)
			if errors.Is(err, kv.ErrNoSpace) {
				break
			}
			if err != nil || n > 4000 { // etcd learns of its size when it commits a batch
				t.Fatalf("write %d: %v", n, err)
			}
		}
		if err := db.Writable(ctx); !errors.Is(err, kv.ErrNoSpace) || !strings.Contains(err.Error(), "quota") {
			t.Errorf("it says %v", err)
		}
		if err := db.Ping(ctx); err != nil {
			t.Errorf("reads go on, but: %v", err)
		}
		return n
	}
	fill(func(int) string { return "/one" })
	eventually(t, "it takes writes again", func() bool { return write(ctx, db, "/two", 1) == nil && db.Writable(ctx) == nil })
	written := fill(func(n int) string { return fmt.Sprintf("/many/%d", n) })
	for n := range written {
		if _, err := db.Commit(ctx, kv.Txn{Then: []kv.Op{{Delete: true, Key: fmt.Sprintf("/many/%d", n)}}}); err != nil {
			t.Fatalf("delete: %v", err)
		}
	}
	eventually(t, "it takes writes again", func() bool { return write(ctx, db, "/two", 1) == nil })
}

// TestDamagedFiles opens directories whose files are damaged: an error says so, and the process goes on.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := OpenEmbedded(t.Context(), Embedded{Dir: dir, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 50 {
		if err := write(t.Context(), db, fmt.Sprintf("/registry/c%d", n), 2000); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wal := func(to string) string {
		files, _ := filepath.Glob(filepath.Join(to, "member", "wal", "*.wal"))
		return files[0]
	}
	database := func(to string) string { return filepath.Join(to, "member", "snap", "db") }
	change := func(path string, f func(b []byte) []byte) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, damage := range map[string]func(to string){
		"the log has other bytes": func(to string) {
			change(wal(to), func(b []byte) []byte { copy(b[20_000:], bytes.Repeat([]byte{0xff}, 4000)); return b })
		},
		"the log has no end":       func(to string) { change(wal(to), func(b []byte) []byte { return b[:50_000] }) },
		"the log has no beginning": func(to string) { change(wal(to), func(b []byte) []byte { return b[:3] }) },
		"the database is cut off":  func(to string) { change(database(to), func(b []byte) []byte { return b[:5000] }) },
		"the database is something else": func(to string) {
			change(database(to), func(b []byte) []byte { return bytes.Repeat([]byte("no db "), 9000) })
		},
		"the database is zeros": func(to string) { change(database(to), func(b []byte) []byte { return make([]byte, len(b)) }) },
	} {
		to := filepath.Join(t.TempDir(), "etcd")
		if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		damage(to)
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		db, err := OpenEmbedded(ctx, Embedded{Dir: to, UnsafeNoFsync: true})
		cancel()
		if err == nil {
			t.Errorf("%s: it was opened", name)
			_ = db.Close()
			continue
		}
		if text := err.Error(); !strings.Contains(text, to) || !strings.Contains(text, "kanzen snapshot restore") || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSeal changes, one at a time, what a stopped etcd has left. A change of a value, which no structure tells, is told.
func TestSeal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	again := func() error {
		db, err := OpenEmbedded(t.Context(), Embedded{Dir: dir, UnsafeNoFsync: true})
		if err != nil {
			return err
		}
		return errors.Join(write(t.Context(), db, "/registry/a-value-of-its-own", 100), db.Close())
	}
	for range 2 {
		if err := again(); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "member", "snap", "db")
	sound, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(sound)
	at := bytes.LastIndex(changed, []byte("a-value-of-its-own"))
	changed[at] ^= 1
	put := func(content []byte) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(changed)
	for range 2 { // and it is told again
		if err := again(); err == nil || !strings.Contains(err.Error(), "is not what it was") || !strings.Contains(err.Error(), sealFile) {
			t.Fatalf("a changed database: %v", err)
		}
	}
	put(sound)
	if err := again(); err != nil {
		t.Errorf("as it was: %v", err)
	}
	// The seal itself: one that cannot be read says nothing.
	if err := os.WriteFile(filepath.Join(dir, sealFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := again(); err != nil {
		t.Errorf("without a seal: %v", err)
	}
	// Another etcd has run: its log has other times, and the seal says nothing any more.
	wal, _ := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err := os.Chtimes(wal[0], time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.Write(make([]byte, 4096))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := again(); err != nil {
		t.Errorf("after another etcd: %v", err)
	}
}

// TestRoomToBegin: a disk that is too small for a new etcd is told at once, with how much it takes; one that has a database is left
// to the checks of each write.
func TestRoomToBegin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	free := func(bytes uint64) func(string) (uint64, error) {
		return func(string) (uint64, error) { return bytes, nil }
	}
	if err := roomToBegin(dir, free(beginBytes)); err != nil {
		t.Error(err)
	}
	err := roomToBegin(dir, free(100<<20))
	if !errors.Is(err, kv.ErrNoSpace) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "100 MiB are free, it takes 144 MiB") {
		t.Errorf("a small disk: %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(databaseOf(dir)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(databaseOf(dir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := roomToBegin(dir, free(100<<20)); err != nil {
		t.Errorf("with a database: %v", err)
	}
}

// TestAlmostFullDisk has the disk fill up and get space again. Nothing is written in between.
func TestAlmostFullDisk(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := open(t, Embedded{Dir: t.TempDir()})
	var free uint64
	now := time.Now()
	db.disk = &space.Reserve{Need: needBytes, Now: func() time.Time { return now }, Of: func(string) (space.Disk, error) { return space.Disk{Free: free}, nil }}
	for _, c := range []struct {
		free uint64
		full bool
	}{{1 << 40, false}, {10 << 20, true}, {needBytes, false}} {
		free, now = c.free, now.Add(time.Second)
		err := write(ctx, db, "/a", 10)
		if errors.Is(err, kv.ErrNoSpace) != c.full {
			t.Errorf("%d bytes free: %v", c.free, err)
		}
		if err := db.Writable(ctx); errors.Is(err, kv.ErrNoSpace) != c.full {
			t.Errorf("%d bytes free: it says %v", c.free, err)
		}
		if err := db.Ping(ctx); err != nil {
			t.Errorf("reads go on, but: %v", err)
		}
	}
}

// TestFullDisk fills a small file system for good. etcd refuses writes before it must end, and goes on when there is space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system takes root")
	}
	dir, ctx := t.TempDir(), t.Context()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=320m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	db := open(t, Embedded{Dir: filepath.Join(dir, "etcd")})
	if err := write(ctx, db, "/kept", 100); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	// Someone else takes what etcd may need, but for some that lets it write on until it looks again.
	for block := make([]byte, 1<<20); ; {
		free, err := freeBytes(dir)
		if err != nil {
			t.Fatal(err)
		}
		if free < needBytes-(8<<20) {
			break
		}
		if _, err := f.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	_ = f.Close()
	eventually(t, "writes are refused", func() bool { return errors.Is(write(ctx, db, "/more", 1000), kv.ErrNoSpace) })
	if err := db.Writable(ctx); err == nil || !strings.Contains(err.Error(), "almost full") {
		t.Errorf("it says %v", err)
	}
	if rev, err := db.Head(ctx); err != nil || rev == 0 {
		t.Errorf("reads go on, but: %d, %v", rev, err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	eventually(t, "writes go on", func() bool { return write(ctx, db, "/more", 1000) == nil && db.Writable(ctx) == nil })
	if err := db.broken.err(); err != nil {
		t.Error(err)
	}
}

// TestBroken has etcd's code end itself: its goroutine ends, the process does not, and everyone is told, also who watches.
func TestBroken(t *testing.T) {
	t.Parallel()
	db := open(t, Embedded{Dir: t.TempDir()})
	watch := make(chan error, 1)
	go func() {
		watch <- db.Watch(t.Context(), kv.Watch{Key: "a", From: 1}, func([]kv.Event, int64) error { return nil })
	}()
	log := newLogger(slog.New(slog.DiscardHandler), db.broken)
	done := make(chan struct{})
	go func() {
		defer close(done)
		log.Fatal("the disk is on fire")
		t.Error("it went on")
	}()
	<-done
	select {
	case <-db.Broken():
	default:
		t.Error("nobody is told")
	}
	for what, err := range map[string]error{"Watch": <-watch, "Err": db.Err(), "Ping": db.Ping(t.Context()), "Writable": db.Writable(t.Context())} {
		if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "on fire") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
