package remote

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/clock"
)

// Retry configures retries.
type Retry struct {
	// Attempts is the maximum number of attempts.
	Attempts int
	// Pause is the pause after the first attempt; each later one is longer by Factor. Jitter is the fraction of a pause
	// that may be added at random.
	Pause          time.Duration
	Factor, Jitter float64
	Clock          clock.Clock
	// Random returns a number in [0,1); nil: math/rand.
	Random func() float64
	// Passes reports whether another attempt may succeed after an error; nil: after temporary errors.
	Passes func(error) bool
}

// maxAsked bounds the pause that a server can request (Retry-After).
const maxAsked = time.Minute

// DefaultRetry makes five attempts within about four seconds.
func DefaultRetry(clk clock.Clock) Retry {
	return Retry{Attempts: 5, Pause: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Clock: clk}
}

// Do calls f until it succeeds or returns a permanent error, and returns its last error. It stops when ctx ends.
func (r Retry) Do(ctx context.Context, f func() error) error {
	if r.Random == nil {
		r.Random = rand.Float64
	}
	if r.Passes == nil {
		r.Passes = passes
	}
	pause := r.Pause
	for n := 1; ; n++ {
		err := f()
		if err == nil || n >= r.Attempts || !r.Passes(err) {
			return err
		}
		jittered := pause + time.Duration(r.Random()*r.Jitter*float64(pause))
		select {
		case <-r.Clock.After(max(jittered, asked(err))):
		case <-ctx.Done():
			return err
		}
		pause = time.Duration(float64(pause) * r.Factor)
	}
}

// asked returns the pause that the server requested with an error.
func asked(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return min(time.Duration(seconds)*time.Second, maxAsked)
}

// passes reports whether an error is temporary: the server restarts, is overloaded or asks to retry.
func passes(err error) bool {
	if utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) {
		return true
	}
	_, asked := apierrors.SuggestsClientDelay(err)
	return asked
}
