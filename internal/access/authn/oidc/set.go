package oidc

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
)

const (
	// replaceTimeout is how long new issuers may take to become reachable.
	replaceTimeout = time.Minute
	// healthEvery is the period of health checks in that time.
	healthEvery = time.Second
	// lingering is how long the old issuers are kept for requests in progress.
	lingering = time.Minute
)

// Set is the issuers of a configuration. They can be replaced while the set is in use.
type Set struct {
	clock   clock.WithTicker
	current atomic.Pointer[generation]
	running sync.WaitGroup
}

type generation struct {
	issuers []*Authenticator
	stop    context.CancelFunc
}

// NewSet creates a set of issuers.
func NewSet(clk clock.WithTicker, issuers ...*Authenticator) *Set {
	s := &Set{clock: clk}
	s.current.Store(&generation{issuers: issuers, stop: func() {}})
	return s
}

// Authenticate passes the token to the issuer that it names.
func (s *Set) Authenticate(ctx context.Context, token string) (user.Info, error) {
	for _, a := range s.current.Load().issuers {
		if u, err := a.Authenticate(ctx, token); u != nil || err != nil {
			return u, err
		}
	}
	return nil, nil
}

// Run connects to the issuers, and returns after ctx has ended.
func (s *Set) Run(ctx context.Context) {
	s.start(ctx, s.current.Load())
	<-ctx.Done()
	s.running.Wait()
}

// Close closes the connections to the issuers.
func (s *Set) Close() {
	for _, a := range s.current.Load().issuers {
		a.client.base.CloseIdleConnections()
	}
}

func (s *Set) start(ctx context.Context, g *generation) {
	ctx, g.stop = context.WithCancel(ctx)
	for _, a := range g.issuers {
		s.running.Go(func() { a.Run(ctx) })
	}
}

// Replace replaces the issuers, once all new ones are reachable. ctx must be that of Run. If they are not reachable in
// time, the old ones stay.
func (s *Set) Replace(ctx context.Context, issuers []*Authenticator) error {
	next := &generation{issuers: issuers}
	s.start(ctx, next)
	if err := s.healthy(ctx, next); err != nil {
		next.stop()
		return err
	}
	old := s.current.Swap(next)
	s.running.Go(func() {
		select {
		case <-s.clock.After(lingering):
		case <-ctx.Done():
		}
		old.stop()
		for _, a := range old.issuers {
			if !s.has(a.issuer) {
				a.Metrics.Forget(a.issuer)
			}
		}
	})
	return nil
}

func (s *Set) has(issuer string) bool {
	for _, a := range s.current.Load().issuers {
		if a.issuer == issuer {
			return true
		}
	}
	return false
}

func (s *Set) healthy(ctx context.Context, g *generation) error {
	deadline := s.clock.Now().Add(replaceTimeout)
	for {
		var errs []error
		for _, a := range g.issuers {
			if err := a.Healthy(); err != nil {
				errs = append(errs, err)
			}
		}
		err := utilerrors.NewAggregate(errs)
		switch {
		case err == nil:
			return nil
		case s.clock.Now().After(deadline):
			return fmt.Errorf("not all issuers could be reached within %v: %w", replaceTimeout, err)
		}
		select {
		case <-s.clock.After(healthEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
