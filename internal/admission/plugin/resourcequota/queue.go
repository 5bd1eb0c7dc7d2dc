package resourcequota

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// settleTimeout bounds how long a write waits for its charge.
const settleTimeout = 10 * time.Second

// queue settles the charges of a namespace together. Each would be a
// transaction on the same quotas; many writers at once would mostly meet each
// other's conflicts.
type queue struct {
	settle func(ctx context.Context, namespace string, charges []*charge)

	mu sync.Mutex
	// waiting has an entry for each namespace that is being worked on.
	waiting map[string][]*waiter
}

type waiter struct {
	*charge
	settled chan struct{}
}

func newQueue(settle func(ctx context.Context, namespace string, charges []*charge)) *queue {
	return &queue{settle: settle, waiting: map[string][]*waiter{}}
}

// do settles a charge and returns its outcome.
func (q *queue) do(ctx context.Context, namespace string, c *charge) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	w := &waiter{c, make(chan struct{})}
	q.mu.Lock()
	_, busy := q.waiting[namespace]
	q.waiting[namespace] = append(q.waiting[namespace], w)
	q.mu.Unlock()
	if !busy {
		// Not in this request's goroutine: it would go on working for others.
		// It ends when nobody waits, and every step of it ends in time.
		go q.work(context.WithoutCancel(ctx), namespace)
	}
	select {
	case <-w.settled:
		return w.err
	case <-ctx.Done():
		return errTimeout
	}
}

// work settles what is waiting in a namespace until nothing is.
func (q *queue) work(ctx context.Context, namespace string) {
	for {
		q.mu.Lock()
		batch := q.waiting[namespace]
		if len(batch) == 0 {
			delete(q.waiting, namespace)
			q.mu.Unlock()
			return
		}
		q.waiting[namespace] = nil
		q.mu.Unlock()
		q.settleBatch(ctx, namespace, batch)
	}
}

func (q *queue) settleBatch(ctx context.Context, namespace string, batch []*waiter) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	charges := make([]*charge, len(batch))
	for i, w := range batch {
		charges[i] = w.charge
	}
	defer func() {
		// A panic here would end the process, not just a request.
		if p := recover(); p != nil {
			for _, c := range charges {
				c.err = fmt.Errorf("settle quotas: %v", p)
			}
		}
		for _, w := range batch {
			close(w.settled)
		}
	}()
	q.settle(ctx, namespace, charges)
}
