// Package queue is the work queue of controllers.
package queue

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/guard"
)

// Queue contains names of objects to process, each by one worker at a time. If processing fails or panics, it is
// retried with growing pauses.
type Queue struct {
	workqueue.TypedRateLimitingInterface[string]
	name    string
	guard   *guard.Guard
	metrics *Metrics
	log     *slog.Logger
}

// New creates an empty queue; its name is for metrics (nil: none) and the log.
func New(name string, clk clock.WithTicker, g *guard.Guard, m *Metrics, log *slog.Logger) *Queue {
	return &Queue{workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](20*time.Millisecond, 5*time.Second),
		m.of(workqueue.TypedRateLimitingQueueConfig[string]{Name: name, Clock: clk})), name, g, m, log}
}

// Run calls look for each name until ctx ends. Several calls of Run may work concurrently.
func (q *Queue) Run(ctx context.Context, look func(ctx context.Context, name string) error) {
	go func() {
		<-ctx.Done()
		q.ShutDown()
	}()
	for {
		name, down := q.Get()
		if down {
			return
		}
		q.metrics.begin(q.name, name)
		if err := q.guard.Call(q.name, func() error { return look(ctx, name) }); err != nil {
			if ctx.Err() == nil {
				q.log.Debug("will look again", "name", name, "reason", err)
			}
			q.AddRateLimited(name)
		} else {
			q.Forget(name)
		}
		q.metrics.end(q.name, name)
		q.Done(name)
	}
}
