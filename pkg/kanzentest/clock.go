package kanzentest

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Clock is a clock that a test moves: it runs like the system's, and Advance lets time pass at once. What is due by
// then happens: events expire, tokens and leases end.
type Clock struct{ running running }

// NewClock makes a clock. It shows start; zero is the system's time.
func NewClock(start time.Time) *Clock {
	c := &Clock{}
	if !start.IsZero() {
		c.running.ahead = time.Until(start)
	}
	return c
}

// Now returns the clock's time.
func (c *Clock) Now() time.Time { return c.running.Now() }

// Advance lets time pass. Negative durations are an error of the caller, and change nothing.
func (c *Clock) Advance(d time.Duration) {
	if d > 0 {
		c.running.advance(d)
	}
}

// inner returns the clock for the server; the system's for nil.
func (c *Clock) inner() clock.WithTickerAndDelayedExecution {
	if c == nil {
		return clock.RealClock{}
	}
	return &c.running
}

// running is the system's clock and what it was advanced by. It implements clock.WithTickerAndDelayedExecution.
type running struct {
	mu     sync.Mutex
	ahead  time.Duration       // guarded by mu
	timers map[*alarm]struct{} // those that are set; guarded by mu
}

func (r *running) advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead += d
	for a := range r.timers {
		a.timer.Reset(a.due.Sub(r.nowLocked()))
	}
}

func (r *running) nowLocked() time.Time { return time.Now().Add(r.ahead) }

func (r *running) Now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nowLocked()
}

func (r *running) Since(t time.Time) time.Duration { return r.Now().Sub(t) }

func (r *running) Sleep(d time.Duration) { <-r.After(d) }

func (r *running) After(d time.Duration) <-chan time.Time { return r.NewTimer(d).C() }

func (r *running) Tick(d time.Duration) <-chan time.Time { return r.NewTicker(d).C() }

func (r *running) NewTimer(d time.Duration) clock.Timer {
	c := make(chan time.Time, 1)
	return r.alarm(d, 0, c, func() { send(c, r.Now()) })
}

func (r *running) NewTicker(d time.Duration) clock.Ticker {
	c := make(chan time.Time, 1)
	return ticker{r.alarm(d, d, c, func() { send(c, r.Now()) })}
}

func (r *running) AfterFunc(d time.Duration, f func()) clock.Timer { return r.alarm(d, 0, nil, f) }

func send(c chan time.Time, now time.Time) {
	select {
	case c <- now:
	default:
	}
}

// alarm is a timer or ticker of a running clock.
type alarm struct {
	clock *running
	c     chan time.Time
	f     func()
	every time.Duration // zero for a timer
	timer *time.Timer   // of the system; set before the alarm is used
	due   time.Time     // guarded by clock.mu
}

func (r *running) alarm(d, every time.Duration, c chan time.Time, f func()) *alarm {
	a := &alarm{clock: r, c: c, f: f, every: every}
	r.mu.Lock()
	defer r.mu.Unlock()
	a.timer = time.AfterFunc(time.Hour, a.ring)
	a.set(d)
	return a
}

// set sets the alarm; the clock's mu is held. It returns whether the alarm was set before.
func (a *alarm) set(d time.Duration) bool {
	r := a.clock
	if r.timers == nil {
		r.timers = map[*alarm]struct{}{}
	}
	_, was := r.timers[a]
	a.due = r.nowLocked().Add(d)
	r.timers[a] = struct{}{}
	a.timer.Reset(d)
	return was
}

// ring is called by the system's timer.
func (a *alarm) ring() {
	r := a.clock
	r.mu.Lock()
	_, set := r.timers[a]
	if wait := a.due.Sub(r.nowLocked()); set && wait > 0 {
		a.timer.Reset(wait) // it was set anew meanwhile
		set = false
	}
	if set {
		delete(r.timers, a)
		if a.every > 0 {
			a.set(a.every)
		}
	}
	r.mu.Unlock()
	if set {
		a.f()
	}
}

// C is part of clock.Timer.
func (a *alarm) C() <-chan time.Time { return a.c }

// Stop is part of clock.Timer.
func (a *alarm) Stop() bool {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	_, was := a.clock.timers[a]
	delete(a.clock.timers, a)
	a.timer.Stop()
	return was
}

// Reset is part of clock.Timer.
func (a *alarm) Reset(d time.Duration) bool {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	return a.set(d)
}

// ticker is an alarm whose Stop returns nothing.
type ticker struct{ *alarm }

// Stop is part of clock.Ticker.
func (t ticker) Stop() { t.alarm.Stop() }
