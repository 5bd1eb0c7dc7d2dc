package planes

import (
	"sync"
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
