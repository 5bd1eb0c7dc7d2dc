package resourcequota

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// chargeTimeout bounds how long a write waits for its charge.
const chargeTimeout = 10 * time.Second

// queue makes the charges of a namespace in batches. Separate charges would be
// transactions on the same quotas, and concurrent writers would mostly conflict
// with each other.
type queue struct {
	decide func(ctx context.Context, namespace string, charges []*charge)

	mu sync.Mutex
	// waiting has an entry for each namespace whose charges are being made.
	waiting map[string][]*waiter
}

type waiter struct {
	*charge
	done chan struct{}
}

func newQueue(decide func(ctx context.Context, namespace string, charges []*charge)) *queue {
	return &queue{decide: decide, waiting: map[string][]*waiter{}}
}

// do makes a charge and returns its result.
func (q *queue) do(ctx context.Context, namespace string, c *charge) error {
	ctx, cancel := context.WithTimeout(ctx, chargeTimeout)
	defer cancel()
	w := &waiter{c, make(chan struct{})}
	q.mu.Lock()
	_, busy := q.waiting[namespace]
	q.waiting[namespace] = append(q.waiting[namespace], w)
	q.mu.Unlock()
	if !busy {
		// A goroutine of its own, because it goes on with charges of other
		// requests. It ends when no charge waits, and each of its steps has a
		// timeout.
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
		// An unrecovered panic here would end the process, not only a request.
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
