package controlplane

import (
	"context"
	"sync"
	"time"
)

// This file makes what Run could not make and nobody waits for, and what must be made again once it is deleted.

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

// Attempts at what Run could not make begin after lateLeast, and then come ever less often. What must not be missing is looked at
// every keepEvery, as by kube-apiserver.
const lateLeast, keepEvery = time.Second, time.Minute

// Keep makes what Run could not make, and makes again what others have deleted, until ctx ends.
func (b *Bootstrapper) Keep(ctx context.Context, after func(time.Duration) <-chan time.Time, failed func(error)) {
	attempt := func(tasks []task) (left []task) {
		for _, t := range tasks {
			if err := t(ctx); err != nil && ctx.Err() == nil {
				left = append(left, t)
				failed(err)
			}
		}
		return left
	}
	left, kept := b.left.take(), append(b.namespaces(), b.tokenTracking, b.Identity.keep)
	for pause := lateLeast; ; pause = min(2*pause, keepEvery) {
		if len(left) == 0 {
			pause = keepEvery
		}
		select {
		case <-after(pause):
		case <-ctx.Done():
			return
		}
		left = attempt(left)
		if pause == keepEvery {
			attempt(kept)
		}
	}
}
