// Package movingclock has a clock that runs like the system's and can be moved on, for tests in which time passes.
package movingclock

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Clock is the system's clock and what it was advanced by; the zero value is the system's. It implements
// clock.WithTickerAndDelayedExecution.
type Clock struct {
	mu     sync.Mutex
	ahead  time.Duration       // guarded by mu
	timers map[*alarm]struct{} // those that are set; guarded by mu
}

// Advance lets time pass at once; what is due by then happens. A negative duration sets the clock back.
func (r *Clock) Advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead += d
	for a := range r.timers {
		a.timer.Reset(a.due.Sub(r.nowLocked()))
	}
}

func (r *Clock) nowLocked() time.Time { return time.Now().Add(r.ahead) }

// Now is part of clock.PassiveClock.
func (r *Clock) Now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nowLocked()
}

// Since is part of clock.PassiveClock.
func (r *Clock) Since(t time.Time) time.Duration { return r.Now().Sub(t) }

// Sleep is part of clock.Clock.
func (r *Clock) Sleep(d time.Duration) { <-r.After(d) }

// After is part of clock.Clock.
func (r *Clock) After(d time.Duration) <-chan time.Time { return r.NewTimer(d).C() }

// Tick is part of clock.Clock.
func (r *Clock) Tick(d time.Duration) <-chan time.Time { return r.NewTicker(d).C() }

// NewTimer is part of clock.Clock.
func (r *Clock) NewTimer(d time.Duration) clock.Timer {
	c := make(chan time.Time, 1)
	return r.alarm(d, 0, c, func() { send(c, r.Now()) })
}

// NewTicker is part of clock.WithTicker.
func (r *Clock) NewTicker(d time.Duration) clock.Ticker {
	c := make(chan time.Time, 1)
	return ticker{r.alarm(d, d, c, func() { send(c, r.Now()) })}
}

// AfterFunc is part of clock.WithDelayedExecution.
func (r *Clock) AfterFunc(d time.Duration, f func()) clock.Timer { return r.alarm(d, 0, nil, f) }

func send(c chan time.Time, now time.Time) {
	select {
	case c <- now:
	default:
	}
}

// alarm is a timer or ticker of a Clock.
type alarm struct {
	clock *Clock
	c     chan time.Time
	f     func()
	every time.Duration // zero for a timer
	timer *time.Timer   // of the system; set before the alarm is used
	due   time.Time     // guarded by clock.mu
}

func (r *Clock) alarm(d, every time.Duration, c chan time.Time, f func()) *alarm {
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
