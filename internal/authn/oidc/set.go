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
	// replaceTimeout is how long new issuers have to be reached.
	replaceTimeout = time.Minute
	// healthEvery is how often they are looked at meanwhile.
	healthEvery = time.Second
	// lingering is how long requests under way may still need the old ones.
	lingering = time.Minute
)

// Set is the issuers of a configuration. They can be replaced while it is used.
type Set struct {
	clock   clock.WithTicker
	current atomic.Pointer[generation]
	running sync.WaitGroup
}

type generation struct {
	issuers []*Authenticator
	stop    context.CancelFunc
}

// NewSet makes a set of issuers.
func NewSet(clk clock.WithTicker, issuers ...*Authenticator) *Set {
	s := &Set{clock: clk}
	s.current.Store(&generation{issuers: issuers, stop: func() {}})
	return s
}

// Authenticate asks the issuer that the token names.
func (s *Set) Authenticate(ctx context.Context, token string) (user.Info, error) {
	for _, a := range s.current.Load().issuers {
		if u, err := a.Authenticate(ctx, token); u != nil || err != nil {
			return u, err
		}
	}
	return nil, nil
}

// Run reaches the issuers, and returns after ctx has ended.
func (s *Set) Run(ctx context.Context) {
	s.start(ctx, s.current.Load())
	<-ctx.Done()
	s.running.Wait()
}

func (s *Set) start(ctx context.Context, g *generation) {
	ctx, g.stop = context.WithCancel(ctx)
	for _, a := range g.issuers {
		s.running.Go(func() { a.Run(ctx) })
	}
}

// Replace puts other issuers in the place of those there are, once all of them
// can be reached. ctx is what Run was given. If they cannot be reached in time
// the old ones stay.
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
