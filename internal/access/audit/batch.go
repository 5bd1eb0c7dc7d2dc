package audit

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/guard"
)

// BatchOptions configure batching.
type BatchOptions struct {
	// Buffer is the number of events that may wait; further events are lost.
	Buffer int
	// A batch is complete at MaxSize events, or MaxWait after its first event.
	MaxSize int
	MaxWait time.Duration
	// Rate limits batches to QPS per second on average, and to bursts of Burst; 0: no limit.
	QPS   float64
	Burst int
	// Parallel sends a batch without waiting for the previous one.
	Parallel bool
	// Grace is how long Close waits for what is being passed on before it closes the next backend, which ends its attempts;
	// 0: without end, for a backend that does not wait for others.
	Grace time.Duration
}

// Batch passes events on in batches from its own goroutine, so that requests do not wait. Close passes on the remaining
// events.
type Batch struct {
	next    Backend
	options BatchOptions
	clock   clock.WithTicker
	guard   *guard.Guard
	report  *Reporter
	limit   *rate.Limiter // nil: none
	buffer  chan *auditv1.Event

	mu      sync.RWMutex  // read-locked to send to buffer, locked to close it
	closing chan struct{} // closed with buffer
	done    chan struct{}
	sends   sync.WaitGroup
}

// NewBatch starts a Batch in front of next.
func NewBatch(next Backend, o BatchOptions, clk clock.WithTicker, g *guard.Guard, report *Reporter) *Batch {
	b := &Batch{next: next, options: o, clock: clk, guard: g, report: report,
		buffer: make(chan *auditv1.Event, o.Buffer), closing: make(chan struct{}), done: make(chan struct{})}
	if o.QPS > 0 {
		b.limit = rate.NewLimiter(rate.Limit(o.QPS), o.Burst)
	}
	go b.run()
	return b
}

var (
	errBlocked  = errors.New("audit buffer queue blocked")
	errShutDown = errors.New("audit backend shut down")
)

// Process puts events into the buffer. It never rejects a request.
func (b *Batch) Process(events ...*auditv1.Event) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.isClosing() {
		b.report.lost("buffered", errShutDown, events)
		return true
	}
	for n, ev := range events {
		kept := *ev
		select {
		case b.buffer <- &kept:
		default:
			b.report.lost("buffered", errBlocked, events[n:])
			return true
		}
	}
	return true
}

// Close passes on the buffered events and closes the next backend. What that does not take within the grace is lost, and
// reported as lost.
func (b *Batch) Close() error {
	b.mu.Lock()
	first := !b.isClosing()
	if first {
		close(b.closing)
		close(b.buffer)
	}
	b.mu.Unlock()
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		<-b.done
		b.sends.Wait()
	}()
	if !first {
		<-passed
		return nil
	}
	var grace <-chan time.Time // nil: without end
	if b.options.Grace > 0 {
		timer := time.NewTimer(b.options.Grace) // whoever waits for the end does so in real time
		defer timer.Stop()
		grace = timer.C
	}
	select {
	case <-passed:
		return b.next.Close()
	case <-grace:
		err := b.next.Close()
		<-passed
		return err
	}
}

func (b *Batch) run() {
	defer close(b.done)
	for {
		batch, more := b.collect()
		if len(batch) > 0 {
			b.send(batch)
		}
		if !more {
			return
		}
	}
}

// collect gathers a batch until it is full or MaxWait has passed since its first event. more is false if no batch
// follows.
func (b *Batch) collect() (batch []*auditv1.Event, more bool) {
	ev, ok := <-b.buffer
	if !ok {
		return nil, false
	}
	batch = append(batch, ev)
	if b.options.MaxSize <= 1 {
		return batch, true
	}
	timer := b.clock.NewTimer(b.options.MaxWait)
	defer timer.Stop()
	for len(batch) < b.options.MaxSize {
		select {
		case ev, ok := <-b.buffer:
			if !ok {
				return batch, false
			}
			batch = append(batch, ev)
		case <-timer.C():
			return batch, true
		}
	}
	return batch, true
}

// send passes a batch on when the rate limit allows.
func (b *Batch) send(batch []*auditv1.Event) {
	b.throttle()
	if b.options.Parallel {
		b.sends.Go(func() { b.hand(batch) })
	} else {
		b.hand(batch)
	}
}

// throttle waits until the rate limit allows another batch. It does not delay events that remain at shutdown.
func (b *Batch) throttle() {
	if b.limit == nil || b.isClosing() {
		return
	}
	now := b.clock.Now()
	wait := b.limit.ReserveN(now, 1).DelayFrom(now)
	if wait <= 0 {
		return
	}
	select {
	case <-b.clock.After(wait):
	case <-b.closing:
	}
}

// hand passes a batch on. If the backend panics, only this batch is lost.
func (b *Batch) hand(batch []*auditv1.Event) {
	if err := b.guard.Call("audit", func() error { b.next.Process(batch...); return nil }); err != nil {
		b.report.lost("buffered", err, batch)
	}
}

func (b *Batch) isClosing() bool {
	select {
	case <-b.closing:
		return true
	default:
		return false
	}
}
