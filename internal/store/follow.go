package store

import (
	"context"
	"errors"
)

// follow calls once until ctx ends or the view is dropped: it calls it again
// after lost history, an error or a panic.
func (v *View) follow(ctx context.Context, once func(ctx context.Context) error) {
	for ctx.Err() == nil {
		err := v.store.guard.Call("following "+v.kind.Prefix, func() error { return once(ctx) })
		if ctx.Err() != nil || errors.Is(err, ErrForgotten) {
			return
		}
		if !errors.Is(err, ErrCompacted) {
			v.brokeOff(ctx, err)
		}
	}
}

// brokeOff says why following broke off, and waits before the next try.
func (v *View) brokeOff(ctx context.Context, err error) {
	v.store.log.Warn("following a view broke off", "view", v.kind.Prefix, "error", err)
	select {
	case <-v.store.clock.After(retryAfter):
	case <-ctx.Done():
	}
}
