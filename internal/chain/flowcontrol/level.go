package flowcontrol

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/request"
)

// level is a priority level in use: its queues and their lock. The lock is held for less than a microsecond at a time.
type level struct {
	*flowcontrolv1.PriorityLevelConfiguration
	clock   clock.WithDelayedExecution
	metrics levelMetrics
	retry   *retryAdvice
	share   share // guarded by the Controller's mu
	// quiescing is set when the object has been deleted: queued requests are still served, new ones do not arrive.
	// Guarded by the Controller's mu.
	quiescing bool

	mu     sync.Mutex
	set    *queueSet  // guarded by mu
	demand integrator // guarded by mu
}

func newLevel(pl *flowcontrolv1.PriorityLevelConfiguration, clk clock.WithDelayedExecution, m *Metrics) *level {
	l := &level{PriorityLevelConfiguration: pl, clock: clk, retry: &retryAdvice{after: 1}, metrics: m.level(pl.Name)}
	now := clk.Now()
	l.demand.at = now
	l.set = newQueueSet(limits{}, now, l.start, l.observe)
	return l
}

// limitsOf returns the limits in a level's object, without its seats.
func limitsOf(pl *flowcontrolv1.PriorityLevelConfiguration) limits {
	l := limits{exempt: pl.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt}
	if pl.Spec.Limited != nil && pl.Spec.Limited.LimitResponse.Queuing != nil {
		q := pl.Spec.Limited.LimitResponse.Queuing
		l.queues, l.length, l.hand = int(q.Queues), int(q.QueueLengthLimit), int(q.HandSize)
	}
	return l
}

// maxSeats bounds the seats of one request, so that a few wide requests cannot take all; 0: no bound.
func (l *level) maxSeats() int {
	hand := limitsOf(l.PriorityLevelConfiguration).hand
	if hand == 0 {
		return 0
	}
	return int(max(1, min(math.Ceil(float64(l.share.nominal)*0.15), float64(l.share.nominal/hand))))
}

// apply sets the limits of the object, and the computed seats.
func (l *level) apply(now time.Time) {
	lim := limitsOf(l.PriorityLevelConfiguration)
	lim.capacity = l.share.capacity
	if l.share.nominal > 0 {
		// A level that has lent all of its few seats keeps one. Otherwise its next request would wait for the next
		// adjustment.
		lim.capacity = max(1, lim.capacity)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.metrics.capacity(lim)
	l.set.configure(now, lim)
	l.observe(now)
}

// start is called by the queues when a request's turn has come. l.mu is held.
func (l *level) start(t *ticket) {
	if t.ready != nil {
		close(t.ready)
	}
	t.flow.started(t)
}

// observe is called by the queues after they changed. l.mu is held.
func (l *level) observe(now time.Time) {
	l.demand.set(now, float64(l.set.seatsInUse+l.set.seatsWaiting))
	l.metrics.observe(now, l.set)
}

// enter waits until the request may be served, ctx ends or limit is reached. The caller calls done when the request
// ends; done is nil if the request was rejected.
func (l *level) enter(ctx context.Context, f *flow, t *ticket, hash uint64, limit time.Time) (done func(), reason string) {
	now := l.clock.Now()
	l.mu.Lock()
	got := l.set.arrive(now, t, hash)
	if got == waiting {
		t.ready = make(chan struct{})
		f.metrics().queueLength.Observe(float64(len(t.queue.waiting)))
		f.queued(t, 1)
	}
	l.mu.Unlock()
	switch got {
	case queueStillFull:
		l.hold(ctx)
		return nil, "queue-full"
	case queueFull:
		return nil, "queue-full"
	case overLimit:
		return nil, "concurrency-limit"
	case waiting:
		if !l.await(ctx, f, t, limit) {
			return nil, "time-out"
		}
	}
	return func() { l.leave(t) }, ""
}

// await waits for a request's turn. It returns false if the request has waited too long.
func (l *level) await(ctx context.Context, f *flow, t *ticket, limit time.Time) bool {
	timer := l.clock.NewTimer(limit.Sub(l.clock.Now()))
	defer timer.Stop()
	select {
	case <-t.ready:
	case <-timer.C():
	case <-ctx.Done():
	}
	now := l.clock.Now()
	l.mu.Lock()
	gone := l.set.abandon(now, t)
	l.mu.Unlock()
	f.queued(t, -1)
	request.Visit(ctx, request.LayerQueue, t.arrived, now.Sub(t.arrived))
	f.metrics().waited(!gone, now.Sub(t.arrived))
	return !gone
}

// hold delays a rejection. A client that ignores Retry-After and retries at once would otherwise keep the server busy
// rejecting it.
func (l *level) hold(ctx context.Context) {
	// The delays differ, so that the clients do not all retry at the same moment.
	timer := l.clock.NewTimer(patience/2 + rand.N(patience))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set.unhold()
}

// leave ends a request's service. Its seats are free now, or after the request's linger time.
func (l *level) leave(t *ticket) {
	now := l.clock.Now()
	l.mu.Lock()
	linger := l.set.finish(now, t)
	l.mu.Unlock()
	t.flow.finished(t, now.Sub(t.began))
	if linger > 0 {
		l.clock.AfterFunc(linger, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.set.release(l.clock.Now(), t)
			t.flow.freed(t)
		})
		return
	}
	t.flow.freed(t)
}

func (l *level) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.set.idle()
}

// retryAdvice computes the Retry-After of a level: the more requests it rejects, the longer.
type retryAdvice struct {
	mu      sync.Mutex
	second  int64     // the second that count is for; guarded by mu
	count   int       // rejections in that second; guarded by mu
	history []refusal // the seconds before; guarded by mu
	after   int       // the advice, in seconds; guarded by mu
	changed int64     // when after was last raised; guarded by mu
}

type refusal struct {
	second int64
	count  int
}

// maxRetryAfter bounds the advice, in seconds.
const maxRetryAfter = 32

// refused counts a rejection and returns the seconds to advise.
func (a *retryAdvice) refused(now time.Time) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := now.Unix()
	if s == a.second {
		a.count++
		return a.after
	}
	a.history = append(a.history, refusal{a.second, a.count})
	for len(a.history) > 0 && s-a.history[0].second > int64(min(2*a.after, maxRetryAfter)) {
		a.history = a.history[1:]
	}
	a.second, a.count = s, 1
	a.adjust(s)
	return a.after
}

// adjust raises or lowers the advice by the rejections of the last seconds, as many as the advice is long.
func (a *retryAdvice) adjust(s int64) {
	n := 0
	for _, h := range a.history {
		if s-h.second <= int64(a.after) && h.second < s {
			n += h.count
		}
	}
	switch {
	case s-a.changed >= int64(a.after) && n >= 3*a.after:
		a.after, a.changed = min(2*a.after, maxRetryAfter), s
	case n < a.after && a.after > 1:
		a.after--
	}
}
