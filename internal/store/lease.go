package store

import (
	"context"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Bounds of the sharing of one lease, the same as kube-apiserver's: objects
// that are created within a minute expire together, at most a thousand, so that
// an expiry is not one large transaction.
const (
	leaseReuse   = time.Minute
	leaseObjects = 1000
)

// leaser hands out leases for objects that expire. Many objects share one
// lease.
type leaser struct {
	db    DB
	clock clock.Clock
	sizes prometheus.Observer // of leases that are full or over

	// lock is a mutex whose holder has put a token into it. It is held also
	// while etcd is asked for a lease; a waiter gives up when its ctx ends.
	lock    chan struct{}
	current map[time.Duration]*lease // by ttl, guarded by lock
}

type lease struct {
	id      kv.Lease
	until   time.Time // no object may join after it
	objects int
}

func (l *leaser) init(db DB, clk clock.Clock, sizes prometheus.Observer) {
	l.db, l.clock, l.sizes = db, clk, sizes
	l.lock, l.current = make(chan struct{}, 1), map[time.Duration]*lease{}
}

// get returns a lease that lasts at least ttl, and at most a twentieth of it or
// a minute longer, in whole seconds. A lease of a few seconds is not shared,
// and lasts exactly ttl.
func (l *leaser) get(ctx context.Context, ttl time.Duration) (kv.Lease, error) {
	select {
	case l.lock <- struct{}{}:
		defer func() { <-l.lock }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	now := l.clock.Now()
	if c := l.current[ttl]; c != nil && now.Before(c.until) && c.objects < leaseObjects {
		c.objects++
		return c.id, nil
	}
	reuse := min(leaseReuse, ttl/20).Truncate(time.Second)
	id, err := l.db.Grant(ctx, (ttl + reuse + time.Second - 1).Truncate(time.Second))
	if err != nil {
		return 0, err
	}
	if c := l.current[ttl]; c != nil {
		l.sizes.Observe(float64(c.objects))
	}
	maps.DeleteFunc(l.current, func(_ time.Duration, c *lease) bool { return !now.Before(c.until) })
	l.current[ttl] = &lease{id: id, until: now.Add(reuse), objects: 1}
	return id, nil
}

// forget drops all leases, after etcd did not know one of them.
func (l *leaser) forget(ctx context.Context) {
	select {
	case l.lock <- struct{}{}:
		clear(l.current)
		<-l.lock
	case <-ctx.Done():
	}
}
