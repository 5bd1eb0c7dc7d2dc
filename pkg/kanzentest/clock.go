package kanzentest

import (
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/movingclock"
)

// Clock is a clock that a test moves: it runs like the system's, and Advance lets time pass at once. What is due by
// then happens: events expire, tokens and leases end.
type Clock struct{ running movingclock.Clock }

// NewClock makes a clock. It shows start; zero is the system's time.
func NewClock(start time.Time) *Clock {
	c := &Clock{}
	if !start.IsZero() {
		c.running.Advance(time.Until(start))
	}
	return c
}

// Now returns the clock's time.
func (c *Clock) Now() time.Time { return c.running.Now() }

// Advance lets time pass. Negative durations are an error of the caller, and change nothing.
func (c *Clock) Advance(d time.Duration) {
	if d > 0 {
		c.running.Advance(d)
	}
}

// inner returns the clock for the server; the system's for nil.
func (c *Clock) inner() clock.WithTickerAndDelayedExecution {
	if c == nil {
		return clock.RealClock{}
	}
	return &c.running
}
