package bundle

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

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

// Controlled is a control plane whose controllers work. Due is when they have to do something next: now if they work, zero if nothing waits.
type Controlled interface {
	CatchUp(ctx context.Context) error
	Due() time.Time
}

// AwaitCalm returns when the controllers of a control plane have nothing to do. head returns the revision of its last write. Errors:
// ErrUnsettled.
func AwaitCalm(ctx context.Context, clk clock.Clock, p Controlled, head func(context.Context) (int64, error)) error {
	end := clk.Now().Add(settleTime)
	for calm, last := 0, int64(0); calm < calmLooks; calm++ {
		if clk.Now().After(end) {
			return ErrUnsettled
		}
		if err := p.CatchUp(ctx); err != nil {
			return err
		}
		due := p.Due()
		now, err := head(ctx)
		if err != nil {
			return err
		}
		if now != last || !due.IsZero() && due.Before(clk.Now().Add(dueSoon)) {
			calm, last = 0, now
		}
		select {
		case <-clk.After(settleLook):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
