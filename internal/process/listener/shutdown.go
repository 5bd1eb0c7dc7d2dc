package listener

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/logs"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

// drainTimeout bounds how long shutting down waits for requests.
const drainTimeout = 60 * time.Second

// Shutdown is how a server shuts down, with a port or without one.
type Shutdown struct {
	InFlight *chain.InFlight
	Watches  *chain.Watches // nil: they are not spread over time
	// Stopping is closed when shutting down begins, and Gone when clients must use another server.
	Stopping, Gone chan struct{}
	// Cut cancels the remaining requests.
	Cut func()

	root  *config.Process
	clock clock.WithTicker
	log   *slog.Logger
}

// NewShutdown makes the way a server with these settings will end.
func NewShutdown(root *config.Process, cut func(), clk clock.WithTicker, log *slog.Logger) *Shutdown {
	s := &Shutdown{InFlight: &chain.InFlight{}, Stopping: make(chan struct{}), Gone: make(chan struct{}), Cut: cut, root: root, clock: clk, log: log}
	if root.WatchTermination > 0 {
		s.Watches = chain.NewWatches()
	}
	return s
}

// RetryAfter returns a channel that is closed when clients must use another
// server; nil if they are never told to.
func (s *Shutdown) RetryAfter() <-chan struct{} {
	if s.root.ShutdownRetryAfter {
		return s.Gone
	}
	return nil
}

// Run stops accepting requests, waits for those under way, and closes. New
// requests of a connection that is there are refused as well, unless clients are
// to be told when to come again (--shutdown-send-retry-after), as in
// kube-apiserver. The
// server leaves the kubernetes service (leave) before it refuses any request; load
// balancers have ShutdownDelay to notice. l nil: there is no port.
func (s *Shutdown) Run(l *Listener, leave func()) error {
	close(s.Stopping) // /readyz fails from here on
	over := logs.Step(s.log, s.clock, "stopping", "stopped")
	drained := logs.Step(s.log, s.clock, "waiting for requests under way", "requests are done")
	var left sync.WaitGroup
	left.Go(leave)
	if s.root.ShutdownDelay > 0 {
		<-s.clock.After(s.root.ShutdownDelay)
	}
	left.Wait()
	close(s.Gone)
	closing := s.closing(l)
	if !s.root.ShutdownRetryAfter {
		closing.begin() // those who are to be told to use another server need the port for that
	}
	if s.Watches != nil {
		s.Watches.End(s.root.WatchTermination, s.clock)
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := s.InFlight.Drain(ctx); err != nil {
		s.log.Warn("shutting down although requests are still under way")
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

// answerTimeout bounds how long clients are waited for that have not taken the ends of their answers.
const answerTimeout = time.Second

// closing closes the port and its connections. A client whose watch ends cleanly
// while the port is closed resumes the watch on the next server. A client whose
// connection breaks, or that reconnects to a server about to end, may begin
// again with a list. So the port is closed, and connections are told to go
// away, before watches end.
type closing struct {
	*Shutdown
	listener *Listener // nil: there is none
	begin    func()    // closes the port and tells connections to take no more requests; those under way go on
	closed   chan error
	cancel   context.CancelFunc
}

func (s *Shutdown) closing(l *Listener) *closing {
	ctx, cancel := context.WithCancel(context.Background())
	c := &closing{Shutdown: s, listener: l, closed: make(chan error, 1), cancel: cancel}
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
		c.Cut()
		return nil
	}
	after := c.clock.After
	<-after(farewell)
	c.Cut()
	c.listener.ended(answerTimeout)
	select {
	case err := <-c.closed:
		if err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
	case <-after(farewell):
	}
	return c.listener.Close()
}
