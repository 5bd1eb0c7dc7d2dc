package store

import (
	"context"
	"sync"
)

// tasks are the goroutines that a Store has started: loads of views, reads of
// history. They end before Run returns, and none starts after that.
type tasks struct {
	ctx    context.Context // ends with Run
	cancel context.CancelFunc

	mu      sync.Mutex
	stopped bool
	running sync.WaitGroup
}

func (t *tasks) init() { t.ctx, t.cancel = context.WithCancel(context.Background()) }

// start runs f in a goroutine; its ctx ends with the store's Run. After that
// it returns false and does nothing.
func (t *tasks) start(f func(ctx context.Context)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	t.running.Go(func() { f(t.ctx) })
	return true
}

// stop ends all tasks and waits for them.
func (t *tasks) stop() {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	t.cancel()
	t.running.Wait()
}
