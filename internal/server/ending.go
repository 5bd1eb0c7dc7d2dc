package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/logs"
)

// drainTimeout bounds how long shutting down waits for requests.
const drainTimeout = 60 * time.Second

// ending is how a server shuts down.
type ending struct {
	base     *base
	inFlight *chain.InFlight
	watches  *chain.Watches // nil: they are not spread over time
	stopping chan struct{}  // closed when shutting down begins
	gone     chan struct{}  // closed when clients must use another server
	cut      func()         // cancels the remaining requests
}

func newEnding(b *base, cut func()) *ending {
	e := &ending{base: b, inFlight: &chain.InFlight{}, stopping: make(chan struct{}), gone: make(chan struct{}), cut: cut}
	if b.cfg.WatchTermination > 0 {
		e.watches = chain.NewWatches()
	}
	return e
}

// retryAfter returns a channel that is closed when clients must use another
// server; nil if they are never told to.
func (e *ending) retryAfter() <-chan struct{} {
	if e.base.cfg.ShutdownRetryAfter {
		return e.gone
	}
	return nil
}

// run stops accepting requests, waits for those under way, and closes. The
// server leaves the kubernetes service before it refuses any request; load
// balancers have ShutdownDelay to notice.
func (e *ending) run(l *listener, leave func()) error {
	close(e.stopping) // /readyz fails from here on
	log, clk := e.base.log, e.base.ground.Clock
	over := logs.Step(log, clk, "stopping", "stopped")
	drained := logs.Step(log, clk, "waiting for requests under way", "requests are done")
	var left sync.WaitGroup
	left.Go(leave)
	if e.base.cfg.ShutdownDelay > 0 {
		<-e.base.ground.Clock.After(e.base.cfg.ShutdownDelay)
	}
	left.Wait()
	close(e.gone)
	if e.watches != nil {
		e.watches.End(e.base.cfg.WatchTermination, e.base.ground.Clock)
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := e.inFlight.Drain(ctx); err != nil {
		e.base.log.Warn("shutting down although requests are still under way")
	}
	drained()
	if err := e.cutWatches(l); err != nil {
		return err
	}
	over()
	return nil
}

// farewell is how long clients have to notice that their connections take no
// more requests, and then that their watches have ended.
const farewell = 25 * time.Millisecond

// cutWatches ends long-running requests. A client whose watch ends cleanly
// while the port is closed resumes the watch on the next server. A client whose
// connection breaks, or that reconnects to a server about to end, may begin
// again with a list. So the port is closed, and connections are told to go
// away, before watches end.
func (e *ending) cutWatches(l *listener) error {
	if l == nil {
		e.cut()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*farewell)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- l.Shutdown(ctx) }()
	<-e.base.ground.Clock.After(farewell)
	e.cut()
	if err := <-closed; err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return l.Close()
}
