package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/kanzen-io/kanzen/internal/controllers"
	"github.com/kanzen-io/kanzen/internal/debug"
	"github.com/kanzen-io/kanzen/internal/request"
)

// drainTimeout bounds how long shutting down waits for requests.
const drainTimeout = 60 * time.Second

// Run serves until ctx ends, then shuts down in order. It is called once.
func (s *Server) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, s.close()) }()
	upkeep, err := s.flowUpkeep()
	if err != nil {
		return err
	}

	// Parts run under their own contexts, so that they end after what needs
	// them: listener, controllers, store, etcd.
	storeCtx, stopStore := context.WithCancel(context.WithoutCancel(ctx))
	partsCtx, stopParts := context.WithCancel(storeCtx)
	var storeWait, partsWait sync.WaitGroup
	srv := &http.Server{}
	defer func() {
		stopParts()
		err = errors.Join(err, srv.Close())
		partsWait.Wait()
		stopStore()
		storeWait.Wait()
	}()
	start := func(wg *sync.WaitGroup, f func()) { wg.Go(f) }
	// keep starts a part that may begin again where it panicked. The others
	// guard their own loops.
	keep := func(what string, f func(ctx context.Context)) {
		partsWait.Go(func() { s.guard.Keep(request.WithUser(partsCtx, itself), what, f) })
	}

	// 1. The log: every read waits for it.
	start(&storeWait, func() { _ = s.store.Run(storeCtx) })
	if s.cfg.EtcdCompactionInterval > 0 {
		start(&storeWait, func() {
			s.guard.Keep(storeCtx, "compaction", func(ctx context.Context) { _ = s.store.RunCompaction(ctx, s.cfg.EtcdCompactionInterval) })
		})
	}
	// 2. The authorizers' indexes and that of definitions, which follow views.
	start(&partsWait, func() { s.authz.run(partsCtx) })
	start(&partsWait, func() { s.authn.run(partsCtx) })
	start(&partsWait, func() {
		select {
		case <-s.authz.rbac.ready:
			s.progress.authorizer.set()
		case <-partsCtx.Done():
		}
	})
	start(&partsWait, func() { _ = s.custom.Run(request.WithUser(partsCtx, itself)) })
	start(&partsWait, func() {
		select {
		case <-s.custom.Ready():
			s.progress.definitions.set()
		case <-partsCtx.Done():
		}
	})
	if s.flow != nil {
		start(&partsWait, func() { _ = s.flowConsumer().Run(partsCtx) })
	} else {
		s.progress.flowConsumer.set()
	}
	// 3. The listener, so that health can be asked from the first moment.
	failed := make(chan error, 2)
	if s.listener != nil {
		made, err := s.httpServer()
		if err != nil {
			return err
		}
		srv = made
		start(&partsWait, func() {
			if err := srv.ServeTLS(s.listener, "", ""); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				failed <- fmt.Errorf("serve: %w", err)
			}
		})
	}
	if s.cfg.DebugSocketPath != "" {
		start(&partsWait, func() {
			if err := debug.ServeSocket(partsCtx, s.cfg.DebugSocketPath, s.verbosity); err != nil {
				failed <- err
			}
		})
	}
	leave := func() {} // takes the server off the kubernetes service, once it is on
	// 4. What a cluster starts with. An etcd that is not there yet is waited for.
	if err := s.bootstrap(ctx); err != nil {
		if ctx.Err() == nil {
			s.cut()
			return errors.Join(err, srv.Close())
		}
	} else {
		select {
		case <-s.authz.rbac.ready:
			close(s.ready)
		case <-ctx.Done():
		}
		// 5. Controllers, which act through all of the above.
		leave = s.join(partsCtx, &partsWait)
		keep("repair of service addresses", func(ctx context.Context) { _ = s.repair.Run(ctx) })
		keep("lease of this server", func(ctx context.Context) { s.boot.lease.run(ctx, s.clock.After) })
		keep("authentication of extension servers", func(ctx context.Context) {
			s.boot.info.run(ctx, s.clock.After, func(err error) {
				s.log.Warn("could not tell extension servers how users are known", "error", err)
			})
		})
		keep("flow control configuration", upkeep.Run)
		keep("dangling flow schemas", func(ctx context.Context) { _ = s.dangling().Run(ctx) })
		keep("availability of APIServices", func(ctx context.Context) { _ = s.availability().Run(ctx) })
		keep("trimming memory", newTrimmer(s.clock).run)
		start(&partsWait, func() { controllers.Run(partsCtx, s.controllersConfig(), s.cfg.Controllers) })
	}
	select {
	case <-ctx.Done():
	case err := <-failed:
		return err
	}
	return s.shutdown(srv, leave, stopParts)
}

// join keeps the kubernetes service, and this server among its endpoints as
// soon as it is ready. leave takes it off them, and returns when it is off.
func (s *Server) join(ctx context.Context, wg *sync.WaitGroup) (leave func()) {
	ctx, cancel := context.WithCancel(request.WithUser(ctx, itself))
	left := make(chan struct{})
	wg.Go(func() {
		defer close(left)
		s.guard.Keep(ctx, "kubernetes service", s.boot.service.Run)
	})
	return func() {
		cancel()
		<-left
	}
}

// bootstrap makes the first objects, again while etcd cannot be reached.
func (s *Server) bootstrap(ctx context.Context) error {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		attempt, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := s.boot.run(attempt)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if s.cfg.Embedded() {
			return fmt.Errorf("make the first objects: %w", err)
		}
		s.log.Warn("could not make the first objects, trying again", "error", err)
		select {
		case <-s.clock.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// shutdown stops taking requests, lets those under way end, and closes. The
// kubernetes service leads elsewhere before anybody is refused; load balancers
// have ShutdownDelay to learn of it.
func (s *Server) shutdown(srv *http.Server, leave func(), stopParts context.CancelFunc) error {
	close(s.stopping) // unready from here on
	var left sync.WaitGroup
	left.Go(leave)
	if s.cfg.ShutdownDelay > 0 {
		<-s.clock.After(s.cfg.ShutdownDelay)
	}
	left.Wait()
	close(s.gone)
	if s.watches != nil {
		s.watches.End(s.cfg.WatchTermination, s.clock)
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := s.inFlight.Drain(ctx); err != nil {
		s.log.Warn("shutting down although requests are still under way")
	}
	if err := s.cutWatches(srv); err != nil {
		return err
	}
	stopParts()
	s.log.Info("shut down")
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
func (s *Server) cutWatches(srv *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*farewell)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- srv.Shutdown(ctx) }()
	<-s.clock.After(farewell)
	s.cut()
	if err := <-closed; err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return srv.Close()
}
