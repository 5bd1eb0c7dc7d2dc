package store

import (
	"context"
	"errors"
	"sync/atomic"
)

// reporter reports what there is in a view, and what changes.
type reporter interface {
	// run reports what there is, and has wake called when there may be more. After an error it begins anew.
	run(ctx context.Context, wake func()) error
	// close ends what wakes it; run begins anew.
	close()
}

// followed is a reporter that runs while there may be something to report. Only then it has a goroutine: a control plane follows dozens of
// views in which hardly anything happens, and a process may have a thousand control planes.
type followed struct {
	reporter
	view  *View
	ctx   context.Context // of who follows
	stop  func() bool     // has the end of ctx wake nobody any more
	ended func()
	wakes atomic.Int64 // since it ran last; 0: it has no goroutine
}

// follow has f run until ctx ends or the view is dropped, and then calls ended. It runs f again after lost history, an error or a panic.
func (v *View) follow(ctx context.Context, f reporter, ended func()) {
	d := &followed{reporter: f, view: v, ctx: ctx, ended: ended}
	d.wakes.Store(1) // stop must be there before it runs
	d.stop = context.AfterFunc(ctx, d.wake)
	go d.work()
}

func (d *followed) wake() {
	if d.wakes.Add(1) == 1 {
		go d.work()
	}
}

func (d *followed) work() {
	for {
		wakes := d.wakes.Load()
		if !d.once() {
			d.stop()
			d.ended() // and wakes stays as it is, so that it never works again
			return
		}
		if d.wakes.CompareAndSwap(wakes, 0) {
			return
		}
	}
}

// once has the reporter run once; false: for the last time.
func (d *followed) once() bool {
	err := d.view.store.guard.Call("following "+d.view.kind.Prefix, func() error { return d.run(d.ctx, d.wake) })
	if err == nil && d.ctx.Err() == nil {
		return true
	}
	d.close()
	if d.ctx.Err() != nil || errors.Is(err, ErrForgotten) {
		return false
	}
	if !errors.Is(err, ErrCompacted) {
		d.view.brokeOff(d.ctx, err)
	}
	d.wakes.Add(1)
	return true
}

// brokeOff says why following broke off, and waits before the next try.
func (v *View) brokeOff(ctx context.Context, err error) {
	v.store.log.Warn("following a view broke off", "view", v.kind.Prefix, "error", err)
	select {
	case <-v.store.clock.After(retryAfter):
	case <-ctx.Done():
	}
}
