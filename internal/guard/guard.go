// Package guard keeps a panic in one piece of background work from ending the
// process: it is logged with its stack and counted, and the work goes on.
// Requests have a filter of their own for that (chain.Recover).
package guard

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"k8s.io/utils/clock"
)

// Guard recovers from panics. It is safe for concurrent use.
type Guard struct {
	log   *slog.Logger
	clock clock.Clock
	count func() // nil: nobody counts
}

// New makes a guard that calls count for each panic.
func New(log *slog.Logger, clk clock.Clock, count func()) *Guard { return &Guard{log, clk, count} }

// PanicError is what Call returns where its function panicked.
type PanicError struct{ Fault any }

// Error is part of error.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Fault) }

// Call calls f and returns its error, a PanicError if it panicked. what names
// the work in the log.
func (g *Guard) Call(what string, f func() error) (err error) {
	defer func() {
		fault := recover()
		if fault == nil {
			return
		}
		g.log.Error("Panic in background work", "work", what, "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
		if g.count != nil {
			g.count()
		}
		err = &PanicError{fault}
	}()
	return f()
}

// pause is how long work that panicked rests, so that one that always panics
// leaves room for the others.
const pause = time.Second

// Keep runs f until it returns, and again after a pause each time it panics,
// until ctx ends.
func (g *Guard) Keep(ctx context.Context, what string, f func(ctx context.Context)) {
	for g.Call(what, func() error { f(ctx); return nil }) != nil {
		select {
		case <-g.clock.After(pause):
		case <-ctx.Done():
			return
		}
	}
}
