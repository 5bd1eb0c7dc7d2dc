package etcd

import (
	"context"
	"sync"
	"time"
)

// batcher asks etcd for the newest revision once for all readers that wait at
// the same time. A reader must not share a request that was sent before the
// reader came: its answer may be older than a write the reader knows of. So
// while one request is under way, new readers wait for the next.
type batcher struct {
	fetch func(ctx context.Context) (int64, error)

	mu      sync.Mutex
	running bool
	next    *headRequest
}

type headRequest struct {
	done chan struct{}
	rev  int64
	err  error
}

// headTimeout bounds one request to etcd on behalf of many readers.
const headTimeout = 10 * time.Second

func (b *batcher) get(ctx context.Context) (int64, error) {
	b.mu.Lock()
	r := b.next
	if r == nil {
		r = &headRequest{done: make(chan struct{})}
		b.next = r
	}
	if !b.running {
		b.running = true
		b.next = nil
		go b.run(r)
	}
	b.mu.Unlock()
	select {
	case <-r.done:
		return r.rev, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// run sends r, and then the requests that readers have joined meanwhile. It is
// bound to no reader: when one gives up, the others still get their answer.
func (b *batcher) run(r *headRequest) {
	for r != nil {
		r.fetch(b.fetch)
		b.mu.Lock()
		r, b.next = b.next, nil
		b.running = r != nil
		b.mu.Unlock()
	}
}

func (r *headRequest) fetch(f func(ctx context.Context) (int64, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), headTimeout)
	defer cancel()
	r.rev, r.err = f(ctx)
	close(r.done)
}
