package remote

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/clock"
)

// Retry says how long to be patient with a server.
type Retry struct {
	// Attempts is how many there are at most.
	Attempts int
	// Pause is that after the first attempt; each later one is Factor longer.
	// Jitter is the part of a pause that chance may add to it.
	Pause          time.Duration
	Factor, Jitter float64
	Clock          clock.Clock
}

// DefaultRetry is five attempts within about four seconds.
func DefaultRetry(clk clock.Clock) Retry {
	return Retry{Attempts: 5, Pause: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Clock: clk}
}

// Do calls f until it succeeds or fails in a way that will not pass, and
// returns its last error.
func (r Retry) Do(ctx context.Context, f func() error) error {
	pause := r.Pause
	for n := 1; ; n++ {
		err := f()
		if err == nil || n >= r.Attempts || !passes(err) {
			return err
		}
		select {
		case <-r.Clock.After(pause + time.Duration(rand.Float64()*r.Jitter*float64(pause))):
		case <-ctx.Done():
			return err
		}
		pause = time.Duration(float64(pause) * r.Factor)
	}
}

// passes says that an error is one of a moment: the server restarts, has too
// much to do, or asks to come again.
func passes(err error) bool {
	if utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) {
		return true
	}
	_, asked := apierrors.SuggestsClientDelay(err)
	return asked
}
