package store

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"
)

// Bounds of how much one lease is shared, as kube-apiserver has them: objects
// that come within a minute of each other go together, a thousand at most, so
// that an expiry is not one large transaction.
const (
	leaseReuse   = time.Minute
	leaseObjects = 1000
)

// leaser hands out leases for objects that are to go away by themselves, one
// for many objects.
type leaser struct {
	client *clientv3.Client
	clock  clock.Clock

	mu      sync.Mutex
	current map[time.Duration]*lease
}

type lease struct {
	id      clientv3.LeaseID
	until   time.Time // no object may join it later
	objects int
}

func (l *leaser) init(c *clientv3.Client, clk clock.Clock) {
	l.client, l.clock, l.current = c, clk, map[time.Duration]*lease{}
}

// get returns a lease that lasts at least ttl, and no more than a twentieth
// or a minute longer.
func (l *leaser) get(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	if c := l.current[ttl]; c != nil && now.Before(c.until) && c.objects < leaseObjects {
		c.objects++
		return c.id, nil
	}
	reuse := min(leaseReuse, ttl/20)
	r, err := l.client.Grant(ctx, int64((ttl+reuse+time.Second-1)/time.Second))
	if err != nil {
		return 0, err
	}
	l.current[ttl] = &lease{id: r.ID, until: now.Add(reuse), objects: 1}
	return r.ID, nil
}
