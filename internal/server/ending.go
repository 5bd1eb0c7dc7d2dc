package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/kanzen-io/kanzen/internal/chain"
)

// drainTimeout bounds how long shutting down waits for requests.
const drainTimeout = 60 * time.Second

// ending is how a server shuts down.
type ending struct {
	base     *base
	inFlight *chain.InFlight
	watches  *chain.Watches // nil: they end all at once
	stopping chan struct{}  // closed when the server is told to end
	gone     chan struct{}  // closed when clients are to go elsewhere
	cut      func()         // ends the requests that are left
}

func newEnding(b *base, cut func()) *ending {
	e := &ending{base: b, inFlight: &chain.InFlight{}, stopping: make(chan struct{}), gone: make(chan struct{}), cut: cut}
	if b.cfg.WatchTermination > 0 {
		e.watches = chain.NewWatches()
	}
	return e
}

// retryAfter is closed when clients are to go elsewhere; nil if they never are.
func (e *ending) retryAfter() <-chan struct{} {
	if e.base.cfg.ShutdownRetryAfter {
		return e.gone
	}
	return nil
}

// run stops taking requests, lets those under way end, and closes. The
// kubernetes service leads elsewhere before anybody is refused; load balancers
// have ShutdownDelay to learn of it.
func (e *ending) run(l *listener, leave func()) error {
	close(e.stopping) // unready from here on
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
	if err := e.cutWatches(l); err != nil {
		return err
	}
	e.base.log.Info("shut down")
	return nil
}

// farewell is how long clients have to learn that their connections take no
// more requests, and then that their watches have ended.
const farewell = 25 * time.Millisecond

// cutWatches ends the requests that last by nature. A client that finds its
// watch at a clean end and nobody at the port goes on from there with whoever
// listens next; one whose connection breaks, or that is answered by a server
// about to end, may begin anew with a list. So the port is closed and
// connections are told to be at their end before watches are.
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
