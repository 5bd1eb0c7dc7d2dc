package h2

import (
	"runtime"
	"sync"
	"time"
)

// task is what a goroutine runs: the handler of a stream.
type task interface{ run() }

// workers are goroutines that run handlers. Some that have run one wait for the next, because their stacks have the size that handlers need:
// to grow a stack takes a twentieth of the time of a small read. Those that were not needed for a while end.
type workers struct {
	most int           // how many wait
	rest time.Duration // after which those end that were not needed

	mu     sync.Mutex
	idle   []chan task // of those who wait, the last one first; guarded by mu
	least  int         // how many have waited at any time since the last look; guarded by mu
	closed bool        // nobody is to wait; guarded by mu
	look   *time.Timer // nil: nobody waits; guarded by mu
}

func newWorkers() *workers {
	return &workers{most: 4 * runtime.GOMAXPROCS(0), rest: time.Second, closed: true}
}

// run runs a task in a goroutine.
func (w *workers) run(t task) {
	w.mu.Lock()
	last := len(w.idle) - 1
	if last < 0 {
		w.mu.Unlock()
		go w.work(t)
		return
	}
	next := w.idle[last]
	w.idle = w.idle[:last]
	w.least = min(w.least, last)
	w.mu.Unlock()
	next <- t
}

func (w *workers) work(t task) {
	var next chan task
	for t != nil {
		t.run()
		if next == nil {
			next = make(chan task, 1)
		}
		if !w.wait(next) {
			return
		}
		t = nil // it must not be kept while nothing comes
		t = <-next
	}
}

// wait says whether a goroutine is to wait for a task.
func (w *workers) wait(next chan task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.idle) >= w.most {
		return false
	}
	w.idle = append(w.idle, next)
	if w.look == nil {
		w.least = 0
		w.look = time.AfterFunc(w.rest, w.spare)
	}
	return true
}

// spare ends those who have waited since the last look.
func (w *workers) spare() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(w.least)
	if w.look = nil; len(w.idle) > 0 {
		w.least = len(w.idle)
		w.look = time.AfterFunc(w.rest, w.spare)
	}
}

// end ends those who have waited longest. w.mu is held.
func (w *workers) end(n int) {
	for _, next := range w.idle[:n] {
		next <- nil
	}
	w.idle = append(w.idle[:0], w.idle[n:]...)
}

// open lets goroutines wait, or ends those that do.
func (w *workers) open(open bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed = !open; w.closed {
		w.end(len(w.idle))
		w.least = 0
	}
}
