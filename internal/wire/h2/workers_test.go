package h2

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// meeting is a task that ends when as many run as are expected.
type meeting struct{ *sync.WaitGroup }

func (m meeting) run() {
	m.Done()
	m.Wait()
}

func (w *workers) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.idle)
}

// TestWorkers: goroutines that have run something run the next thing, and those that are not needed end.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers()
		w.most = 5
		w.open(true)
		meet := func(n int) {
			var all sync.WaitGroup
			all.Add(n)
			for range n {
				w.run(meeting{&all})
			}
			synctest.Wait()
		}
		expect := func(after string, want int) {
			t.Helper()
			if got := w.waiting(); got != want {
				t.Errorf("after %s %d wait, not %d", after, got, want)
			}
		}
		meet(3)
		expect("three at a time", 3)
		meet(8)
		expect("more than may wait", 5)
		meet(2)
		time.Sleep(w.rest + 1)
		synctest.Wait()
		for range 3 {
			meet(2)
			time.Sleep(w.rest)
			synctest.Wait()
		}
		expect("some time in which two were needed", 2)
		time.Sleep(3 * w.rest)
		synctest.Wait()
		expect("some time without work", 0)
		meet(4)
		w.open(false)
		synctest.Wait()
		expect("the end", 0)
		meet(2) // the last handlers of connections that have ended
		expect("the end", 0)
	})
}
