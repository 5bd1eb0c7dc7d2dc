package guard

import (
	"context"
	"errors"
	"sync"
)

// Task runs until its context ends. One with a name is restarted after a panic; the others guard their own loops.
type Task struct {
	Name string
	Run  func(ctx context.Context) error
}

// Quiet is a task that does not fail.
func Quiet(name string, run func(ctx context.Context)) Task {
	return Task{name, func(ctx context.Context) error {
		run(ctx)
		return nil
	}}
}

// Group is tasks that run together and are stopped together.
type Group struct {
	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup
	guard  *Guard
	failed chan<- error
}

// Group makes a group whose tasks run in ctx. failed receives the error of a task that fails.
func (g *Guard) Group(ctx context.Context, failed chan<- error) *Group {
	made := &Group{guard: g, failed: failed}
	made.ctx, made.cancel = context.WithCancel(ctx)
	return made
}

// Start starts tasks.
func (g *Group) Start(tasks ...Task) {
	for _, t := range tasks {
		g.wait.Go(func() {
			if t.Name != "" {
				g.guard.Keep(g.ctx, t.Name, func(ctx context.Context) { _ = t.Run(ctx) })
				return
			}
			if err := t.Run(g.ctx); err != nil && g.ctx.Err() == nil && !errors.Is(err, context.Canceled) {
				select {
				case g.failed <- err:
				default: // one error is enough
				}
			}
		})
	}
}

// Stop ends the tasks and returns when they have ended.
func (g *Group) Stop() {
	g.cancel()
	g.wait.Wait()
}
