package resourcequota

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// chargeTimeout bounds how long a write waits for its charge.
const chargeTimeout = 10 * time.Second

// queue makes the charges of a namespace together. Each would be a
// transaction on the same quotas; many writers at once would mostly meet each
// other's conflicts.
type queue struct {
	decide func(ctx context.Context, namespace string, charges []*charge)

	mu sync.Mutex
	// waiting has an entry for each namespace that is being worked on.
	waiting map[string][]*waiter
}

type waiter struct {
	*charge
	done chan struct{}
}

func newQueue(decide func(ctx context.Context, namespace string, charges []*charge)) *queue {
	return &queue{decide: decide, waiting: map[string][]*waiter{}}
}

// do makes a charge and returns its outcome.
func (q *queue) do(ctx context.Context, namespace string, c *charge) error {
	ctx, cancel := context.WithTimeout(ctx, chargeTimeout)
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
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return errTimeout
	}
}

// work makes the waiting charges of a namespace until there are none.
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
		q.decideBatch(ctx, namespace, batch)
	}
}

func (q *queue) decideBatch(ctx context.Context, namespace string, batch []*waiter) {
	ctx, cancel := context.WithTimeout(ctx, chargeTimeout)
	defer cancel()
	charges := make([]*charge, len(batch))
	for i, w := range batch {
		charges[i] = w.charge
	}
	defer func() {
		// A panic here would end the process, not just a request.
		if p := recover(); p != nil {
			for _, c := range charges {
				c.err = fmt.Errorf("charge quotas: %v", p)
			}
		}
		for _, w := range batch {
			close(w.done)
		}
	}()
	q.decide(ctx, namespace, charges)
}
