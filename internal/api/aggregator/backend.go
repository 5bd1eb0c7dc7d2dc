package aggregator

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// backend is an extension server: a service, by a way to trust it, with the APIServices that name it.
type backend struct {
	server *Server
	key    backendKey
	*transports

	ctx    context.Context
	cancel context.CancelFunc
	// The loops of the backend.
	probe, discover, document *loop

	// services are the APIServices of the backend, by name; guarded by Server.mu.
	services map[string]*service

	found     discovered // of the loop discover
	documents documents  // of the loop document
	written   written    // of the loop probe
}

func newBackend(ctx context.Context, s *Server, key backendKey) *backend {
	b := &backend{server: s, key: key, services: map[string]*service{}, transports: newTransports(s, key)}
	b.ctx, b.cancel = context.WithCancel(ctx)
	b.probe = newLoop(b, b.check, firstProbe, probeEvery)
	b.discover = newLoop(b, b.refresh, firstDiscovery, discoveryEvery)
	b.document = newLoop(b, b.fetch, documentsEvery, documentsEvery)
	return b
}

func (b *backend) loops() []*loop { return []*loop{b.probe, b.discover, b.document} }

// close ends the loops and connections. Requests that are being served go on.
func (b *backend) close() {
	b.cancel()
	b.forget()
}

// all returns the current APIServices of the backend, sorted by name.
func (b *backend) all() []*service {
	b.server.mu.RLock()
	defer b.server.mu.RUnlock()
	out := make([]*service, 0, len(b.services))
	for _, v := range b.services {
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b *service) int { return cmp.Compare(a.name, b.name) })
	return out
}

// current reports whether a service is still in force.
func (b *backend) current(v *service) bool {
	b.server.mu.RLock()
	defer b.server.mu.RUnlock()
	now := b.services[v.name]
	return now != nil && now.uid == v.uid
}

// loop does one kind of work for a backend: when woken, and again after a pause that grows while the work fails.
type loop struct {
	backend      *backend
	work         func(ctx context.Context) error
	first, every time.Duration // the pause after the first failure, and the longest
	woken        chan struct{}
}

func newLoop(b *backend, work func(ctx context.Context) error, first, every time.Duration) *loop {
	return &loop{backend: b, work: work, first: first, every: every, woken: make(chan struct{}, 1)}
}

// wake makes the loop run now, or once more if it is running.
func (l *loop) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

func (l *loop) run(ctx context.Context) {
	clk := l.backend.server.Clock
	failures := 0
	for {
		pause := l.every
		if err := l.work(ctx); err != nil {
			pause = min(l.first<<min(failures, 20), l.every)
			failures++
		} else {
			failures = 0
		}
		timer := clk.NewTimer(pause)
		select {
		case <-timer.C():
		case <-l.woken:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}
