package controllers

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store"
)

// queue is names of objects to look at, each by one worker at a time, again
// with growing pauses while looking at it fails.
type queue struct {
	workqueue.TypedRateLimitingInterface[string]
	log *slog.Logger
}

func newQueue(name string, clk clock.WithTicker, log *slog.Logger) *queue {
	return &queue{workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](20*time.Millisecond, 5*time.Second),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: name, Clock: clk}), log}
}

// run calls look for names until ctx ends.
func (q *queue) run(ctx context.Context, look func(ctx context.Context, name string) error) {
	go func() {
		<-ctx.Done()
		q.ShutDown()
	}()
	for {
		name, down := q.Get()
		if down {
			return
		}
		if err := look(ctx, name); err != nil {
			if ctx.Err() == nil {
				q.log.Debug("will look again", "name", name, "reason", err)
			}
			q.AddRateLimited(name)
		} else {
			q.Forget(name)
		}
		q.Done(name)
	}
}

// follow calls changed with each item that there is and each that comes, and
// gone with each that goes.
type follow struct {
	changed, gone func(i *store.Item)
}

// Reset is part of store.Follower.
func (f follow) Reset(items []*store.Item) {
	for _, i := range items {
		f.changed(i)
	}
}

// Change is part of store.Follower.
func (f follow) Change(e *store.Event) {
	if e.Item != nil {
		f.changed(e.Item)
	} else if f.gone != nil {
		f.gone(e.Prev)
	}
}

// Caught is part of store.Follower.
func (f follow) Caught(int64) {}
