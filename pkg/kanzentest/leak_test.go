package kanzentest_test

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// alone runs a test in a process of its own, whose directory of temporary files must be empty when it ends. It returns
// whether this is the process that started that one.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv("KANZENTEST_LEAKS") != "" {
		return false
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	dir := t.TempDir()
	cmd.Env = append(os.Environ(), "KANZENTEST_LEAKS=1", "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("on disk: %v, %v", left, err)
	}
	return true
}

// TestNothingIsLeft starts and stops servers in a process of their own, and counts goroutines, open files and files on
// disk.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	if alone(t) {
		return
	}
	round := func() {
		for n := range 5 {
			s, err := kanzentest.New(t.Context(), kanzentest.Listen())
			if err != nil {
				t.Fatal(err)
			}
			k := client(t, s.Config())
			if _, err := k.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			w, err := k.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			if n%2 == 0 {
				if err := s.Reset(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			if err := s.Stop(); err != nil {
				t.Error("stopped again:", err)
			}
		}
	}
	round() // what is shared is made
	before := inUse(t)
	round()
	round()
	before.back(t)
}

// TestNothingIsLeftOfMany has many servers at a time, each of them used, and stops them: what they held is given back.
// KANZENTEST_SERVERS says how many.
func TestNothingIsLeftOfMany(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures memory, of which the race detector takes its own")
	}
	t.Parallel()
	if alone(t) {
		return
	}
	servers := 25
	if n, err := strconv.Atoi(os.Getenv("KANZENTEST_SERVERS")); err == nil {
		servers = n
	}
	var watches []watch.Interface
	one := func() *kanzentest.Server {
		s := start(t)
		k := client(t, s.Config())
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		if _, err := k.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w, err := k.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		watches = append(watches, w)
		return s
	}
	stop(t, one()) // what is shared is made
	before := inUse(t)
	var all []*kanzentest.Server
	for range servers {
		all = append(all, one())
	}
	held := heap() - before.heap
	for _, s := range all {
		stop(t, s)
	}
	for _, w := range watches {
		w.Stop() // the client's side
	}
	clear(all)
	clear(watches)
	before.back(t)
	// Some of the process's own memory is larger than it was: lists of goroutines that ended, for example.
	left := await(func() (int64, bool) {
		left := heap() - before.heap
		return left, left < held/10
	})
	t.Logf("%d servers held %d KiB each; %d KiB are left", servers, held/int64(servers)/1024, left/1024)
	if left >= held/10 {
		t.Errorf("of %d KiB %d are left", held/1024, left/1024)
	}
}

// usage is what this process uses.
type usage struct {
	goroutines, files int
	heap              int64
}

func inUse(t *testing.T) usage {
	t.Helper()
	return usage{runtime.NumGoroutine(), openFiles(t), heap()}
}

// back waits until goroutines and open files are as few as they were.
func (u usage) back(t *testing.T) {
	t.Helper()
	// Goroutines may take a moment to end after what they have answered.
	if n := await(func() (int, bool) { n := runtime.NumGoroutine(); return n, n <= u.goroutines+2 }); n > u.goroutines+2 {
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d before\n%s", n, u.goroutines, stacks[:runtime.Stack(stacks, true)])
	}
	if n := await(func() (int, bool) { n := openFiles(t); return n, n <= u.files+2 }); n > u.files+2 {
		t.Errorf("%d open files, %d before", n, u.files)
	}
}

// await asks f until it says that all is well, for a minute, and returns its last answer.
func await[T any](f func() (T, bool)) T {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if got, ok := f(); ok || time.Now().After(deadline) {
			return got
		}
	}
}

// openFiles counts the open files of this process, where the system tells.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
