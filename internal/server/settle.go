package server

import (
	"context"
	"time"

	"github.com/kanzen-io/kanzen/internal/engine/bundle"
)

// This file lets the controllers of a fork do what follows from its writes.

const (
	// settleLook is the pause between two looks at what controllers do, and calmLooks how many in a row must find nothing: a controller
	// that starts, or that was just told of a write, has nothing in its queue yet.
	settleLook, calmLooks = 2 * time.Millisecond, 50
	// dueSoon is when work is waited for. What is due later is a retry of something that fails again and again, or a matter of time, such
	// as the end of a job's life.
	dueSoon = time.Second
	// settleTime bounds the wait.
	settleTime = 30 * time.Second
)

// Settle has controllers run on what the fork holds, until they have nothing to do. It is started anew for that: what was written before
// was written without them. Errors: bundle.ErrUnsettled; it goes on running then.
func (f *Fork) Settle(ctx context.Context, controllers []string) error {
	if err := f.Stop(); err != nil {
		return err
	}
	f.Plane = New(f.cfg.Forked(controllers), f.on, f.seams)
	if err := f.Start(ctx); err != nil {
		return err
	}
	clock := f.on.Clock
	end := clock.Now().Add(settleTime)
	for calm, last := 0, int64(0); calm < calmLooks; calm++ {
		if clock.Now().After(end) {
			return bundle.ErrUnsettled
		}
		if err := f.CatchUp(ctx); err != nil {
			return err
		}
		due := f.Due()
		now, err := f.Log.Head(ctx)
		if err != nil {
			return err
		}
		if now != last || !due.IsZero() && due.Before(clock.Now().Add(dueSoon)) {
			calm, last = 0, now
		}
		select {
		case <-clock.After(settleLook):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
