package audit

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"
)

// BatchOptions say how events are gathered.
type BatchOptions struct {
	// Buffer is how many events may wait; further ones are lost.
	Buffer int
	// MaxSize and MaxWait end a batch.
	MaxSize int
	MaxWait time.Duration
	// Rate bounds batches to QPS a second on average, and Burst at once; 0: no bound.
	QPS   float64
	Burst int
	// Parallel sends a batch without waiting for the one before.
	Parallel bool
}

// Batch hands events on in batches, from a goroutine of its own, so that
// requests do not wait. Close hands on what is left.
type Batch struct {
	next    Backend
	options BatchOptions
	clock   clock.WithTicker
	report  *Reporter
	limit   *rate.Limiter // nil: none
	buffer  chan *auditv1.Event

	mu     sync.RWMutex
	closed bool // guarded by mu; nothing is sent to buffer from then on
	done   chan struct{}
	sends  sync.WaitGroup
}

// NewBatch starts a Batch in front of next.
func NewBatch(next Backend, o BatchOptions, clk clock.WithTicker, report *Reporter) *Batch {
	b := &Batch{next: next, options: o, clock: clk, report: report,
		buffer: make(chan *auditv1.Event, o.Buffer), done: make(chan struct{})}
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

// Process puts events into the buffer. It never refuses a request.
func (b *Batch) Process(events ...*auditv1.Event) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
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

// Close hands on what is in the buffer and closes the backend behind.
func (b *Batch) Close() error {
	b.mu.Lock()
	first := !b.closed
	if b.closed = true; first {
		close(b.buffer)
	}
	b.mu.Unlock()
	<-b.done
	b.sends.Wait()
	if !first {
		return nil
	}
	return b.next.Close()
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

// collect gathers a batch: it ends when it is full, or has waited long enough
// since its first event. more is false when there will be no other.
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

// send hands a batch on when the limit allows. What is left at the end is not
// held back by it: the process is about to go.
func (b *Batch) send(batch []*auditv1.Event) {
	if b.limit != nil && !b.isClosed() {
		_ = b.limit.Wait(context.Background()) // an unending context, and a burst of one or more
	}
	if !b.options.Parallel {
		b.next.Process(batch...)
		return
	}
	b.sends.Go(func() { b.next.Process(batch...) })
}

func (b *Batch) isClosed() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.closed
}
