package planes

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// rate bounds the requests of a plane.
type rate struct {
	perSecond, watches int // 0: not bounded

	mu       sync.Mutex
	tokens   float64
	at       time.Time // when tokens was right
	watching int
}

// limit sets the bounds.
func (h *hosted) limit(l Limits) {
	h.mu.Lock()
	h.limits = l
	if h.bounds != nil {
		h.bounds.bound(l)
	}
	h.mu.Unlock()
	was := h.rate.Load()
	switch {
	case l.RequestsPerSecond == 0 && l.Watches == 0:
		h.rate.Store(nil)
	case was == nil || was.perSecond != l.RequestsPerSecond || was.watches != l.Watches:
		h.rate.Store(&rate{perSecond: l.RequestsPerSecond, watches: l.Watches, tokens: float64(l.RequestsPerSecond)})
	}
}

// refuses counts a request, or says why there are too many, and counts that in refused; "": it may go on, and done is to be called.
func (r *rate) refuses(now time.Time, watch bool, refused *refusals) string {
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if limit := float64(r.perSecond); limit > 0 {
		if !r.at.IsZero() {
			r.tokens = min(limit, r.tokens+limit*now.Sub(r.at).Seconds())
		}
		r.at = now
		if r.tokens < 1 {
			refused.rate.Add(1)
			return "the control plane has more requests a second than its limit"
		}
		r.tokens--
	}
	if watch {
		if r.watches > 0 && r.watching >= r.watches {
			refused.watches.Add(1)
			return "the control plane has as many watches as its limit"
		}
		r.watching++
	}
	return ""
}

// done says that a request has ended.
func (r *rate) done(watch bool) {
	if r == nil || !watch {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watching--
}

// seats bound how many requests of a plane are answered at the same time, watches and streams apart, whoever asks: the others wait.
// So a plane that is flooded has its share of the processors, and its neighbours have theirs.
type seats struct {
	taken   chan struct{}
	waiting atomic.Int64
}

// seatsEach is how many seats a plane has for each processor, and seatsLeast how many it has at least: a request may wait for a webhook
// that asks the same plane. crowd is how many requests may wait for each seat.
const seatsEach, seatsLeast, crowd = 4, 16, 50

func newSeats() *seats {
	return &seats{taken: make(chan struct{}, max(seatsLeast, seatsEach*runtime.GOMAXPROCS(0)))}
}

// sit waits for a seat, which stand gives back; false: there is none, or too many wait.
func (s *seats) sit(ctx context.Context) bool {
	select {
	case s.taken <- struct{}{}:
		return true
	default:
	}
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > int64(crowd*cap(s.taken)) {
		return false
	}
	select {
	case s.taken <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *seats) stand() { <-s.taken }
