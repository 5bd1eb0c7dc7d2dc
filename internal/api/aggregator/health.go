package aggregator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/kanzen-io/kanzen/internal/chain/debug"
)

// milestones are what has begun.
type milestones struct {
	// loops: backends are checked, asked and read. registers: automatic APIServices are kept.
	loops, registers atomic.Bool
}

// Checks returns the health checks of the aggregator, with kube-apiserver's names for the same steps.
func (s *Server) Checks() []debug.Check {
	if s.Idle {
		return nil
	}
	known := func(context.Context) error {
		select {
		case <-s.Ready():
			return nil
		default:
			return errors.New("not all APIServices have been read")
		}
	}
	begun := func(done *atomic.Bool) func(context.Context) error {
		return func(ctx context.Context) error {
			if !done.Load() {
				return errors.New("not finished")
			}
			return known(ctx)
		}
	}
	return []debug.Check{
		{Name: "poststarthook/aggregator-reload-proxy-client-cert", Test: known},
		{Name: "poststarthook/start-kube-aggregator-informers", Test: known},
		{Name: "poststarthook/apiservice-status-local-available-controller", Test: begun(&s.reached.registers)},
		{Name: "poststarthook/apiservice-status-remote-available-controller", Test: begun(&s.reached.loops)},
		{Name: "poststarthook/apiservice-registration-controller", Test: known},
		{Name: "poststarthook/apiservice-discovery-controller", Test: begun(&s.reached.loops)},
		{Name: "poststarthook/kube-apiserver-autoregistration", Test: begun(&s.reached.registers)},
		{Name: "autoregister-completion", Test: s.registered},
		{Name: "poststarthook/apiservice-openapi-controller", Test: begun(&s.reached.loops)},
		{Name: "poststarthook/apiservice-openapiv3-controller", Test: begun(&s.reached.loops)},
	}
}

// registered reports whether each APIService of a built-in group and version has been seen available.
func (s *Server) registered(context.Context) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.pending) > 0 {
		return fmt.Errorf("missing APIService: %v", slices.Sorted(maps.Keys(s.pending)))
	}
	return nil
}
