package etcd

import (
	"context"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// leaseKeys bounds how many keys share a lease, as kube-apiserver does: their end
// is one transaction.
const leaseKeys = 1000

// leaser hands out leases for keys that end. A lease costs a request and a place
// in every member's memory, so those that end at about the same time share one.
type leaser struct {
	grant func(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error)
	now   func() time.Time
	sizes prometheus.Observer // of leases that are full or over; nil: nobody asks

	// lock is a mutex whose holder has put a token into it. It is held also
	// while etcd is asked for a lease; a waiter gives up when its ctx ends.
	lock    chan struct{}
	current map[time.Duration]*lease // by ttl, guarded by lock
}

type lease struct {
	id    clientv3.LeaseID
	until time.Time // no key may join after it
	keys  int
}

func newLeaser(c *clientv3.Client, sizes prometheus.Observer) *leaser {
	return &leaser{
		grant: func(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
			r, err := c.Grant(ctx, int64(ttl/time.Second))
			if err != nil {
				return 0, translated(err)
			}
			return r.ID, nil
		},
		now: time.Now, sizes: sizes, lock: make(chan struct{}, 1), current: map[time.Duration]*lease{},
	}
}

// get returns a lease that lasts at least ttl, and at most kv.Late longer, in
// whole seconds. So a lease of a few seconds is not shared.
func (l *leaser) get(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	select {
	case l.lock <- struct{}{}:
		defer func() { <-l.lock }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	now, c := l.now(), l.current[ttl]
	if c != nil && now.Before(c.until) && c.keys < leaseKeys {
		c.keys++
		return c.id, nil
	}
	shared := kv.Late(ttl)
	id, err := l.grant(ctx, (ttl + shared + time.Second - 1).Truncate(time.Second))
	if err != nil {
		return 0, err
	}
	if c != nil && l.sizes != nil {
		l.sizes.Observe(float64(c.keys))
	}
	maps.DeleteFunc(l.current, func(_ time.Duration, c *lease) bool { return !now.Before(c.until) })
	l.current[ttl] = &lease{id: id, until: now.Add(shared), keys: 1}
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

// NewLeaseSizes makes and registers the metric of how many keys shared a lease,
// under kube-apiserver's name.
func NewLeaseSizes(r prometheus.Registerer) prometheus.Observer {
	sizes := prometheus.NewHistogram(histogram.Opts(r, prometheus.HistogramOpts{Name: "etcd_lease_object_counts", Help: "How many objects shared a lease.",
		Buckets: []float64{10, 50, 100, 500, 1000, 2500, 5000}}))
	r.MustRegister(sizes)
	return sizes
}
