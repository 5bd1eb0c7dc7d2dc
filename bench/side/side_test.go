package side

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The main thread is one that Go never ends; a test that wants a thread to end
// must not be given it.
func init() { runtime.LockOSThread() }

// TestMain is also Bare, which Start finds in the program itself.
func TestMain(m *testing.M) {
	bare := flag.String("bare", "", "")
	bodies := flag.String("bodies", "", "")
	flag.Parse()
	if *bare == "" {
		os.Exit(m.Run())
	}
	if err := ServeBare(context.Background(), *bare, *bodies); err != nil {
		os.Exit(1)
	}
}

func TestSide(t *testing.T) {
	bodies := t.TempDir()
	if err := os.WriteFile(filepath.Join(bodies, "get"), []byte("what is served"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Build(t.Context(), "", "", Bare)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Bare, p, Options{Bodies: bodies})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	get := func() {
		t.Helper()
		c := s.Client()
		defer c.Close()
		var body bytes.Buffer
		if err := c.Do(t.Context(), Request{Method: http.MethodGet, Path: "/get"}, &body); err != nil || body.String() != "what is served" {
			t.Errorf("get = %q, %v", &body, err)
		}
	}
	get()
	if rss, err := s.RSS(); err != nil || rss < 1 || rss > 1000 {
		t.Errorf("RSS = %v MiB, %v", rss, err)
	}
	before, err := s.CPU()
	if err != nil || before <= 0 {
		t.Errorf("CPU = %v, %v", before, err)
	}
	pid := s.procs[0].cmd.Process.Pid
	if err := s.Restart(t.Context()); err != nil || s.procs[0].cmd.Process.Pid == pid || s.Ready <= 0 {
		t.Fatalf("restart: %v, ready after %v", err, s.Ready)
	}
	get()
	s.Stop()
	if _, err := s.CPU(); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("CPU of what has ended: %v", err)
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what it wrote is left behind: %v", err)
	}
}

// A thread that has ended counts, and nothing counts twice.
func TestProcessorTime(t *testing.T) {
	const spun = 50 * time.Millisecond
	before, err := processorTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	thread := make(chan int)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		used := func() time.Duration {
			var t unix.Timespec
			_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // cannot fail
			return time.Duration(t.Nano())
		}
		for began := used(); used() < began+spun; {
		}
		thread <- unix.Gettid()
	}()
	for tid := <-thread; unix.Tgkill(os.Getpid(), tid, 0) == nil; {
		time.Sleep(time.Millisecond)
	}
	after, err := processorTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after-before < spun {
		t.Errorf("a thread used %v, but the process only %v", spun, after-before)
	}
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	if told := time.Duration(u.Utime.Nano() + u.Stime.Nano()); after > told+time.Millisecond {
		t.Errorf("processorTime = %v, the process itself is told of %v", after, told)
	}
}

func TestClient(t *testing.T) {
	var asked atomic.Int32
	answers := []int{http.StatusForbidden, http.StatusNotFound, http.StatusCreated, http.StatusTooManyRequests}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer somebody" {
			t.Errorf("Authorization: %q", got)
		}
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(answers[asked.Add(1)-1])
	}))
	defer srv.Close()
	c := NewClient(srv.URL, "somebody")
	defer c.Close()
	if err := c.Create(t.Context(), "/a", "{}"); err != nil || asked.Load() != 3 {
		t.Errorf("create = %v after %d requests, want success at the third", err, asked.Load())
	}
	err := c.Create(t.Context(), "/b", "{}")
	if e, ok := errors.AsType[*StatusError](err); !ok || e.RetryAfter != 3*time.Second || Code(err) != http.StatusTooManyRequests {
		t.Errorf("create = %#v, want to come again after three seconds", err)
	}
	if Code(nil) != 0 || Code(context.Canceled) != 0 {
		t.Error("an error that is no answer has a code")
	}
}

func TestPercentile(t *testing.T) {
	took := []time.Duration{4, 1, 3, 2}
	for p, want := range map[float64]time.Duration{0: 1, 50: 3, 99.9: 4, 100: 4} {
		if got := Percentile(slices.Clone(took), p); got != want {
			t.Errorf("percentile %v = %d, want %d", p, got, want)
		}
	}
	if got := Percentile(nil, 50); got != 0 {
		t.Errorf("percentile of nothing = %d", got)
	}
}

func TestPauses(t *testing.T) {
	metrics := func(count int, sum, shortest, longest float64) []byte {
		return fmt.Appendf(nil, "# TYPE go_gc_duration_seconds summary\ngo_gc_duration_seconds{quantile=\"0\"} %v\ngo_gc_duration_seconds{quantile=\"0.5\"} 7\n"+
			"go_gc_duration_seconds{quantile=\"1\"} %v\ngo_gc_duration_seconds_sum %v\ngo_gc_duration_seconds_count %v\n", shortest, longest, sum, count)
	}
	parse := func(b []byte) Pauses {
		p, err := parsePauses(b)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	began := parse(metrics(10, 1, 0.0625, 0.5))
	for _, c := range []struct {
		metrics        []byte
		total, longest time.Duration
	}{
		{metrics(10, 1, 0.0625, 0.5), 0, 0},
		{metrics(12, 2, 0.0625, 0.75), time.Second, 750 * time.Millisecond},                                // the longest is one of the two
		{metrics(12, 1.25, 0.0625, 0.5), 250 * time.Millisecond, 187500 * time.Microsecond},                // it is one of those before
		{metrics(11, 1.0009765625, 0.0009765625, 0.5), 976562 * time.Nanosecond, 976562 * time.Nanosecond}, // the only one
	} {
		if total, longest := parse(c.metrics).Since(began); total != c.total || longest != c.longest {
			t.Errorf("%s: %v and %v, want %v and %v", c.metrics, total, longest, c.total, c.longest)
		}
	}
	if _, err := parsePauses([]byte("go_gc_duration_seconds_sum 1\n")); err == nil {
		t.Error("half of the metric is taken for all of it")
	}
}
