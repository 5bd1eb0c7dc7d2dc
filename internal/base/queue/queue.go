// Package queue is the work queue of controllers.
package queue

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/guard"
)

// Queue contains names of objects to process, each by one worker at a time. If processing fails or panics, it is
// retried with growing pauses. A queue in which nothing happens costs little: a server has dozens of them, and a process
// may have hundreds of servers.
type Queue struct {
	workqueue.TypedInterface[string]
	name    string
	clock   clock.WithDelayedExecution
	pauses  workqueue.TypedRateLimiter[string]
	guard   *guard.Guard
	metrics *Metrics
	log     *slog.Logger

	// taken counts names that were taken out of the queue and whose work has not ended.
	taken *atomic.Int64

	mu      sync.Mutex       // held while a name begins or ends to be delayed, or its work ends
	delayed map[string]delay // names that AddAfter adds later; guarded by mu
}

// delay is until when a name waits outside of the queue.
type delay struct {
	due   time.Time
	timer clock.Timer
}

// New creates an empty queue; its name is for metrics (nil: none) and the log.
func New(name string, clk clock.WithTickerAndDelayedExecution, g *guard.Guard, m *Metrics, log *slog.Logger) *Queue {
	taken := new(atomic.Int64)
	q := &Queue{
		TypedInterface: workqueue.NewTypedWithConfig(m.of(workqueue.TypedQueueConfig[string]{Name: name, Clock: clk}, taken)), taken: taken,
		pauses: workqueue.NewTypedItemExponentialFailureRateLimiter[string](20*time.Millisecond, 5*time.Second),
		name:   name, clock: clk, guard: g, metrics: m, log: log, delayed: map[string]delay{},
	}
	m.made(q)
	return q
}

// due is when the next name is: now if one waits or is worked on, zero if there is none. A name goes from the delayed ones to the
// queue, is taken, and may be delayed again: it is looked for in this order, and mu keeps it from beginning anew meanwhile.
func (q *Queue) due() (due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.Len() > 0 || q.taken.Load() > 0 {
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
	q.metrics.retried(q.name)
	if pause <= 0 {
		q.Add(name)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ShuttingDown() {
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
		q.Add(name)
	}
}

// ShutDown ends the queue: nothing is added any more.
func (q *Queue) ShutDown() {
	q.TypedInterface.ShutDown()
	q.metrics.ended(q)
	q.mu.Lock()
	defer q.mu.Unlock()
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
		name, down := q.Get()
		if down {
			return
		}
		working.Go(func() {
			q.work(ctx, name, look)
			<-free
		})
	}
}

func (q *Queue) work(ctx context.Context, name string, look func(ctx context.Context, name string) error) {
	q.metrics.begin(q.name, name)
	if err := q.guard.Call(q.name, func() error { return look(ctx, name) }); err != nil {
		if ctx.Err() == nil {
			q.log.Debug("will look again", "name", name, "reason", err)
		}
		q.AddAfter(name, q.pauses.When(name))
	} else {
		q.pauses.Forget(name)
	}
	q.metrics.end(q.name, name)
	q.Done(name)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken.Add(-1)
}
