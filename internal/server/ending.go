package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/kanzen-io/kanzen/internal/base/logs"
	"github.com/kanzen-io/kanzen/internal/chain"
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
	if b.root.WatchTermination > 0 {
		e.watches = chain.NewWatches()
	}
	return e
}

// retryAfter returns a channel that is closed when clients must use another
// server; nil if they are never told to.
func (e *ending) retryAfter() <-chan struct{} {
	if e.base.root.ShutdownRetryAfter {
		return e.gone
	}
	return nil
}

// run stops accepting requests, waits for those under way, and closes. New
// requests of a connection that is there are refused as well, unless clients are
// to be told when to come again (--shutdown-send-retry-after), as in
// kube-apiserver. The
// server leaves the kubernetes service before it refuses any request; load
// balancers have ShutdownDelay to notice.
func (e *ending) run(l *listener, leave func()) error {
	close(e.stopping) // /readyz fails from here on
	log, clk := e.base.log, e.base.process.Clock
	over := logs.Step(log, clk, "stopping", "stopped")
	drained := logs.Step(log, clk, "waiting for requests under way", "requests are done")
	var left sync.WaitGroup
	left.Go(leave)
	if e.base.root.ShutdownDelay > 0 {
		<-e.base.process.Clock.After(e.base.root.ShutdownDelay)
	}
	left.Wait()
	close(e.gone)
	closing := e.closing(l)
	if !e.base.root.ShutdownRetryAfter {
		closing.begin() // those who are to be told to use another server need the port for that
	}
	if e.watches != nil {
		e.watches.End(e.base.root.WatchTermination, e.base.process.Clock)
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := e.inFlight.Drain(ctx); err != nil {
		e.base.log.Warn("shutting down although requests are still under way")
	}
	drained()
	closing.begin()
	if err := closing.end(); err != nil {
		return err
	}
	over()
	return nil
}

// farewell is how long clients have to notice that their connections take no
// more requests, and then that their watches have ended.
const farewell = 25 * time.Millisecond

// closing closes the port and its connections. A client whose watch ends cleanly
// while the port is closed resumes the watch on the next server. A client whose
// connection breaks, or that reconnects to a server about to end, may begin
// again with a list. So the port is closed, and connections are told to go
// away, before watches end.
type closing struct {
	*ending
	listener *listener // nil: there is none
	begin    func()    // closes the port and tells connections to take no more requests; those under way go on
	closed   chan error
	cancel   context.CancelFunc
}

func (e *ending) closing(l *listener) *closing {
	ctx, cancel := context.WithCancel(context.Background())
	c := &closing{ending: e, listener: l, closed: make(chan error, 1), cancel: cancel}
	c.begin = sync.OnceFunc(func() {
		if l != nil {
			go func() { c.closed <- l.Shutdown(ctx) }()
		}
	})
	return c
}

// end cancels what is still under way, which are long-running requests, and
// closes the connections. begin was called before.
func (c *closing) end() error {
	defer c.cancel()
	if c.listener == nil {
		c.cut()
		return nil
	}
	after := c.base.process.Clock.After
	<-after(farewell)
	c.cut()
	select {
	case err := <-c.closed:
		if err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
	case <-after(farewell):
	}
	return c.listener.Close()
}
