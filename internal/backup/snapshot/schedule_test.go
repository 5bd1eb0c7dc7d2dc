package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// database is an etcd with some keys.
func database(t *testing.T) *etcd.DB {
	t.Helper()
	db, err := etcd.OpenEmbedded(t.Context(), etcd.Embedded{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	for n := range 20 {
		put(t, db, fmt.Sprintf("/registry/configmaps/default/c%d", n))
	}
	return db
}

func put(t *testing.T, db *etcd.DB, key string) {
	t.Helper()
	if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: key, Value: []byte("value")}}}); err != nil {
		t.Fatal(err)
	}
}

func TestKeep(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		keep Keep
		left []int // ages in hours
	}{
		"all":        {Keep{}, []int{1, 2, 3, 30}},
		"by number":  {Keep{Number: 2}, []int{1, 2}},
		"by age":     {Keep{Age: 24 * time.Hour}, []int{1, 2, 3}},
		"by both":    {Keep{Number: 3, Age: 2 * time.Hour}, []int{1, 2}},
		"the newest": {Keep{Age: time.Minute}, []int{1}},
	} {
		dir := Dir(t.TempDir())
		write := func(name string) {
			if err := os.WriteFile(filepath.Join(string(dir), name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, age := range []int{30, 2, 1, 3} {
			write(nameAt(now.Add(-time.Duration(age) * time.Hour)))
		}
		write("mine.db")
		write("mine.db.keys")
		write(nameAt(now.Add(-30*time.Hour)) + KeysSuffix)
		write(nameAt(now.Add(-time.Hour)) + KeysSuffix)
		if err := c.keep.prune(t.Context(), dir, now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want := []string{"mine.db", "mine.db.keys", nameAt(now.Add(-time.Hour)) + KeysSuffix}
		if slices.Contains(c.left, 30) {
			want = append(want, nameAt(now.Add(-30*time.Hour))+KeysSuffix)
		}
		for _, age := range c.left {
			want = append(want, nameAt(now.Add(-time.Duration(age)*time.Hour)))
		}
		slices.Sort(want)
		if got, _ := dir.List(t.Context()); !slices.Equal(got, want) {
			t.Errorf("%s: %v are left, not %v", name, got, want)
		}
	}
}

// scheduled runs a Scheduler by a clock that the test moves.
func scheduled(t *testing.T, from func(context.Context) (io.ReadCloser, error), places ...Place) (*Scheduler, *clocktesting.FakeClock, *bytes.Buffer) {
	t.Helper()
	when, err := ParseSchedule("0 * * * *")
	if err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakeClock(time.Date(2026, 5, 1, 11, 30, 0, 0, time.UTC))
	var log bytes.Buffer
	return NewScheduler(ScheduleConfig{
		From: from, When: when, Places: places, Keep: Keep{Number: 2}, Work: filepath.Join(t.TempDir(), "work"), Clock: clk,
		Log: slog.New(slog.NewTextHandler(&log, nil)), Registry: prometheus.NewRegistry(),
	}), clk, &log
}

func TestScheduler(t *testing.T) {
	db, dir := database(t), Dir(filepath.Join(t.TempDir(), "kept"))
	s, clk, _ := scheduled(t, db.Snapshot, dir)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	until := func(what string, f func() bool) {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); !f(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	for n := 1; n <= 3; n++ {
		until("it waits for its hour", clk.HasWaiters)
		clk.Step(time.Hour)
		until("a snapshot is made", func() bool { return testutil.ToFloat64(s.taken) == float64(n) })
	}
	cancel()
	<-done
	names, err := dir.List(t.Context())
	if want := []string{"kanzen-20260501T133000Z.db", "kanzen-20260501T143000Z.db"}; err != nil || !slices.Equal(names, want) {
		t.Fatalf("%v, %v; want %v", names, err, want)
	}
	f, err := Open(t.Context(), filepath.Join(string(dir), names[1]))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.Entries) != 20 || f.Entries[0].Key != "/registry/configmaps/default/c0" {
		t.Errorf("%d keys", len(f.Entries))
	}
	if left, err := os.ReadDir(s.Work); err != nil || len(left) > 0 {
		t.Errorf("what it worked with is left: %v, %v", left, err)
	}
	if testutil.ToFloat64(s.failed) != 0 || testutil.ToFloat64(s.last) != float64(time.Date(2026, 5, 1, 14, 30, 0, 0, time.UTC).Unix()) {
		t.Errorf("%v failed, the last at %v", testutil.ToFloat64(s.failed), testutil.ToFloat64(s.last))
	}
}

// brokenPlace stores nothing.
type brokenPlace struct{ Dir }

func (brokenPlace) Put(context.Context, string, string) error { return errors.New("no such bucket") }

func TestSchedulerFailures(t *testing.T) {
	db := database(t)
	cutOff := func(ctx context.Context) (io.ReadCloser, error) {
		r, err := db.Snapshot(ctx)
		return struct {
			io.Reader
			io.Closer
		}{io.LimitReader(r, 8192), r}, err
	}
	for name, c := range map[string]struct {
		from   func(context.Context) (io.ReadCloser, error)
		places []Place
		says   string
		kept   int
	}{
		"etcd gives none":         {func(context.Context) (io.ReadCloser, error) { return nil, errors.New("etcd is away") }, nil, "etcd is away", 0},
		"a snapshot is cut off":   {cutOff, nil, "no complete snapshot", 0},
		"one of two places fails": {db.Snapshot, []Place{brokenPlace{"there"}}, "store it in there: no such bucket", 1},
	} {
		dir := Dir(t.TempDir())
		s, _, log := scheduled(t, c.from, append(c.places, dir)...)
		s.attempt(t.Context())
		if testutil.ToFloat64(s.failed) != 1 || testutil.ToFloat64(s.taken) != 0 || !strings.Contains(log.String(), c.says) {
			t.Errorf("%s: %v failures, log: %s", name, testutil.ToFloat64(s.failed), log)
		}
		if kept, _ := dir.List(t.Context()); len(kept) != c.kept {
			t.Errorf("%s: %v are kept", name, kept)
		}
	}
}

// TestSchedulerKeys keeps keys beside snapshots, in two places. A snapshot whose keys cannot be sealed is kept all the same.
func TestSchedulerKeys(t *testing.T) {
	db, first, second := database(t), Dir(t.TempDir()), Dir(t.TempDir())
	s, clk, log := scheduled(t, db.Snapshot, first, second)
	failure := error(nil)
	s.Seal = func(path string) error {
		return errors.Join(failure, os.WriteFile(path, []byte("sealed keys"), FileMode))
	}
	var want []string
	attempt := func(keys bool) {
		t.Helper()
		name := nameAt(clk.Now())
		want = append(want, name)
		if keys {
			want = append(want, name+KeysSuffix)
		}
		s.attempt(t.Context())
		for _, place := range []Dir{first, second} {
			if names, err := place.List(t.Context()); err != nil || !slices.Equal(names, want) {
				t.Fatalf("%s has %v, %v; want %v: %s", place, names, err, want, log)
			}
		}
		if st := s.State(); st.Last != clk.Now() || st.Error != "" || (st.KeysError == "") != keys {
			t.Errorf("%+v", st)
		}
	}
	attempt(true)
	clk.Step(time.Hour)
	failure = errors.New("no such passphrase")
	began := clk.Now()
	attempt(false)
	if st := s.State(); st.Keyless != began || testutil.ToFloat64(s.keyless) != 1 || testutil.ToFloat64(s.failed) != 0 || !strings.Contains(log.String(), "no such passphrase") {
		t.Errorf("%+v, %v failed, log: %s", st, testutil.ToFloat64(s.keyless), log)
	}
	clk.Step(time.Hour)
	failure, want = nil, want[2:] // two snapshots are kept
	attempt(true)
	if content, err := os.ReadFile(filepath.Join(string(first), want[2])); err != nil || string(content) != "sealed keys" {
		t.Errorf("%q %v", content, err)
	}
}

// TestVerifyCompares has Verify find that a snapshot and what is restored of it differ.
func TestVerifyCompares(t *testing.T) {
	db := database(t)
	path := filepath.Join(t.TempDir(), "s.db")
	from, err := db.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := Save(t.Context(), from, path, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := same(t.Context(), f, db); err != nil {
		t.Error(err)
	}
	put(t, db, "/registry/configmaps/default/c7")
	if err := same(t.Context(), f, db); err == nil {
		t.Error("another revision makes no difference")
	}
}
