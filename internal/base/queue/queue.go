// Package queue is the work queue of controllers.
package queue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/guard"
)

// Queue contains names of objects to process, each by one worker at a time. If processing fails or panics, it is
// retried with growing pauses. A queue in which nothing happens costs little: a server has dozens of them, and a process
// may have hundreds of servers.
type Queue struct {
	name     string
	clock    clock.WithDelayedExecution
	guard    *guard.Guard
	metrics  *Metrics
	measured measured
	log      *slog.Logger

	mu      sync.Mutex
	changed *sync.Cond           // a name waits, or the queue has ended; its lock is mu
	waiting []string             // names to take, in order; guarded by mu, as is all below
	added   map[string]time.Time // when names were added that are to be taken, or once more when the work on them has ended
	working map[string]bool      // names that were taken and whose work has not ended
	delayed map[string]delay     // names that AddAfter adds later
	failed  map[string]int       // how often in a row the work on a name has failed
	ended   bool                 // nothing is added any more
}

// delay is until when a name waits outside of the queue.
type delay struct {
	due   time.Time
	timer clock.Timer
}

// New creates an empty queue; its name is for metrics (nil: none) and the log.
func New(name string, clk clock.WithTickerAndDelayedExecution, g *guard.Guard, m *Metrics, log *slog.Logger) *Queue {
	q := &Queue{
		name: name, clock: clk, guard: g, metrics: m, measured: m.of(name), log: log,
		added: map[string]time.Time{}, working: map[string]bool{}, delayed: map[string]delay{}, failed: map[string]int{},
	}
	q.changed = sync.NewCond(&q.mu)
	m.made(q)
	return q
}

// Add adds a name, unless it waits already. If it is worked on, it is looked at again after that.
func (q *Queue) Add(name string) {
	now := q.measured.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(name, now)
}

func (q *Queue) add(name string, now time.Time) {
	if _, waits := q.added[name]; waits || q.ended {
		return
	}
	q.added[name] = now
	q.measured.enters()
	if !q.working[name] {
		q.wait(name)
	}
}

func (q *Queue) wait(name string) {
	q.waiting = append(q.waiting, name)
	q.changed.Signal()
}

// Len returns how many names wait.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// take waits for a name and takes it; false: the queue has ended, and nothing is left in it.
func (q *Queue) take() (name string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 {
		if q.ended {
			return "", false
		}
		q.changed.Wait()
	}
	name, q.waiting = q.waiting[0], q.waiting[1:]
	if len(q.waiting) == 0 {
		q.waiting = nil // free the array: the slice has moved on in it
	}
	q.measured.leaves(q.added[name])
	delete(q.added, name)
	q.working[name] = true
	return name, true
}

// done ends the work on a name that took some time; failed: it is to be done again, after a pause.
func (q *Queue) done(name string, took time.Duration, failed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if failed {
		q.addAfter(name, q.pause(name))
	} else {
		delete(q.failed, name)
	}
	q.measured.worked(took)
	delete(q.working, name)
	if _, again := q.added[name]; again {
		q.wait(name)
	}
}

// The pauses after failures are doubled each time.
const (
	firstPause  = 20 * time.Millisecond
	longestWait = 5 * time.Second
)

// pause returns how long a name that has failed waits.
func (q *Queue) pause(name string) time.Duration {
	pause := firstPause
	for n := 0; n < q.failed[name] && pause < longestWait; n++ {
		pause *= 2
	}
	q.failed[name]++
	return min(pause, longestWait)
}

// due is when the next name is: now if one waits or is worked on, zero if there is none.
func (q *Queue) due() (due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting)+len(q.working) > 0 {
		return q.clock.Now()
	}
	for _, d := range q.delayed {
		if due.IsZero() || d.due.Before(due) {
			due = d.due
		}
	}
	return due
}

// AddAfter adds a name after a pause. A name that waits already is added at the earlier of the two times.
func (q *Queue) AddAfter(name string, pause time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addAfter(name, pause)
}

func (q *Queue) addAfter(name string, pause time.Duration) {
	q.measured.retried()
	if pause <= 0 {
		q.add(name, q.measured.now())
		return
	}
	if q.ended {
		return
	}
	due := q.clock.Now().Add(pause)
	if waits, ok := q.delayed[name]; ok {
		if !due.Before(waits.due) {
			return
		}
		waits.timer.Stop()
	}
	q.delayed[name] = delay{due, q.clock.AfterFunc(pause, func() { q.over(name, due) })}
}

// over ends the delay of a name that was due at a time.
func (q *Queue) over(name string, due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.delayed[name].due.Equal(due) { // otherwise an earlier delay has taken its place
		delete(q.delayed, name)
		q.add(name, due)
	}
}

// ShutDown ends the queue: nothing is added any more.
func (q *Queue) ShutDown() {
	q.metrics.ended(q)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.changed.Broadcast()
	for _, d := range q.delayed {
		d.timer.Stop()
	}
	clear(q.delayed)
}

// Run calls look for each name until ctx ends, for as many at a time as there are workers. A worker is a goroutine only
// while it works.
func (q *Queue) Run(ctx context.Context, workers int, look func(ctx context.Context, name string) error) {
	defer context.AfterFunc(ctx, q.ShutDown)()
	var working sync.WaitGroup
	defer working.Wait()
	free := make(chan struct{}, workers)
	for {
		free <- struct{}{} // before a name is taken, so that it waits in the queue
		name, ok := q.take()
		if !ok {
			return
		}
		working.Go(func() {
			q.work(ctx, name, look)
			<-free
		})
	}
}

func (q *Queue) work(ctx context.Context, name string, look func(ctx context.Context, name string) error) {
	began := q.clock.Now()
	q.metrics.begin(q.name, name, began)
	err := q.guard.Call(q.name, func() error { return look(ctx, name) })
	if err != nil && ctx.Err() == nil {
		q.log.Debug("will look again", "name", name, "reason", err)
	}
	q.metrics.end(q.name, name)
	q.done(name, q.clock.Since(began), err != nil)
}
