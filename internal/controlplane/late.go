package controlplane

import (
	"context"
	"sync"
	"time"
)

// This file has what Run could not make and what nobody waits for.

// tasks is a set of tasks that many may add to.
type tasks struct {
	mu  sync.Mutex
	all []task // guarded by mu
}

func (t *tasks) add(one task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, one)
}

func (t *tasks) take() []task {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.all
	t.all = nil
	return out
}

// lateLeast and lateMost bound the pause between two attempts.
const lateLeast, lateMost = time.Second, time.Minute

// Finish makes what Run could not make, until all is there or ctx ends.
func (b *Bootstrapper) Finish(ctx context.Context, after func(time.Duration) <-chan time.Time, failed func(error)) {
	left := b.left.take()
	for pause := lateLeast; len(left) > 0; pause = min(2*pause, lateMost) {
		select {
		case <-after(pause):
		case <-ctx.Done():
			return
		}
		var still []task
		for _, t := range left {
			if err := t(ctx); err != nil && ctx.Err() == nil {
				still = append(still, t)
				failed(err)
			}
		}
		left = still
	}
}
