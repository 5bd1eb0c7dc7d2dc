package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// callers are the clients that find out which rate a side reaches, and the connections of the requests at a rate.
	callers = 16
	// streams are how many requests may be under way on a connection; both servers allow 100 and more. Others wait in the client.
	streams = 64
	// patience is how long after it was due a request has timed out.
	patience = 5 * time.Second
)

// reach sends requests for a time, each client its next one when the last was answered, and returns how many were answered in a second.
func (s *sender) reach(ctx context.Context, d time.Duration) (float64, error) {
	errs := make([]error, len(s.clients))
	began, first := time.Now(), s.next.Load()
	var wg sync.WaitGroup
	for n, c := range s.clients {
		wg.Go(func() {
			for time.Since(began) < d && errs[n] == nil {
				_, errs[n] = c.do(ctx, s.load, int(s.next.Add(1)-1), nil)
			}
		})
	}
	wg.Wait()
	return float64(s.next.Load()-first) / time.Since(began).Seconds(), errors.Join(errs...)
}

// pace sends requests at a rate for a time: each at its time, whether or not earlier ones were answered. What a request took counts from when
// it was due.
func (s *sender) pace(ctx context.Context, rate float64, d time.Duration) (outcome, error) {
	o := outcome{rate: rate}
	n := max(1, int(rate*d.Seconds()))
	first := int(s.next.Add(int64(n))) - n
	due := make(chan arrival, n) // those that wait do so here
	var mu sync.Mutex            // guards o
	var wg sync.WaitGroup
	for _, c := range s.clients {
		for range streams {
			wg.Go(func() {
				for a := range due {
					late := time.Since(a.due)
					err := s.on(ctx, c, a)
					took := time.Since(a.due)
					mu.Lock()
					o.add(took, late, err)
					mu.Unlock()
				}
			})
		}
	}
	began := time.Now()
	for i := range n {
		a := arrival{first + i, began.Add(time.Duration(float64(i) / rate * float64(time.Second)))}
		sleepUntil(a.due)
		if ctx.Err() != nil {
			break
		}
		due <- a
	}
	close(due)
	wg.Wait()
	return o, context.Cause(ctx)
}

// arrival is a request by its number, and when it is due.
type arrival struct {
	i   int
	due time.Time
}

// on sends a request on a connection, unless nobody waits for it any more.
func (s *sender) on(ctx context.Context, c connection, a arrival) error {
	ctx, cancel := context.WithDeadline(ctx, a.due.Add(patience))
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := c.do(ctx, s.load, a.i, nil)
	return err
}

// sleepUntil sleeps by the kernel's clock. Go's timers may wake an idle program a millisecond late, and a GET takes less than that.
func sleepUntil(t time.Time) {
	for d := time.Until(t); d > 0; d = time.Until(t) {
		left := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&left, nil) // a signal ends it early
	}
}
