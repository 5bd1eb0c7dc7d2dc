// Package guard keeps a panic in background work, alone or in groups (group.go), from ending the process: it logs the panic with its stack, counts it,
// and continues. Requests have their own filter for this (chain.Recover).
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
	count func() // nil: panics are not counted
}

// New creates a guard that calls count for each panic.
func New(log *slog.Logger, clk clock.Clock, count func()) *Guard { return &Guard{log, clk, count} }

// PanicError is the error of Call if its function panicked.
type PanicError struct{ Fault any }

// Error is part of error.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Fault) }

// Call calls f and returns its error, or a PanicError if it panicked. what identifies the work in the log.
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

// pause is the delay after a panic, so that work that always panics leaves time for other work.
const pause = time.Second

// Keep runs f until it returns. If f panics, Keep runs it again after a pause, until ctx ends.
func (g *Guard) Keep(ctx context.Context, what string, f func(ctx context.Context)) {
	for g.Call(what, func() error { f(ctx); return nil }) != nil {
		select {
		case <-g.clock.After(pause):
		case <-ctx.Done():
			return
		}
	}
}
