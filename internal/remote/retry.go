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
	// Random is from 0 up to 1; nil: by math/rand.
	Random func() float64
	// Passes says whether an error may be gone with the next attempt; nil: if
	// it is one of a moment.
	Passes func(error) bool
}

// maxAsked bounds for how long a server is left alone because it asked for it.
const maxAsked = time.Minute

// DefaultRetry is five attempts within about four seconds.
func DefaultRetry(clk clock.Clock) Retry {
	return Retry{Attempts: 5, Pause: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Clock: clk}
}

// Do calls f until it succeeds or fails in a way that will not pass, and
// returns its last error. Nothing more is tried once ctx has ended.
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

// asked is when a server that gave an error wants to be asked again.
func asked(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return min(time.Duration(seconds)*time.Second, maxAsked)
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
