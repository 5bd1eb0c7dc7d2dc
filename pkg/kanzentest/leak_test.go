package kanzentest_test

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// TestNothingIsLeft starts and stops servers in a process of their own, and counts goroutines, open files and files on
// disk.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	if os.Getenv("KANZENTEST_LEAKS") == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNothingIsLeft$", "-test.v")
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
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	round()
	round()
	// Goroutines may take a moment to end after what they have answered.
	deadline := time.Now().Add(30 * time.Second)
	for runtime.NumGoroutine() > goroutines+2 && time.Now().Before(deadline) {
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutines+2 {
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d before\n%s", n, goroutines, stacks[:runtime.Stack(stacks, true)])
	}
	if n := openFiles(t); n > files+2 {
		t.Errorf("%d open files, %d before", n, files)
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
