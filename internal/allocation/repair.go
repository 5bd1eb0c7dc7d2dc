package allocation

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/utils/clock"
)

// Repair makes allocations agree with the services that are stored: what a
// service has is allocated, and what no service has is given back. It is how a
// crash between an allocation and the write it was for is got over.
type Repair struct {
	objects   Objects
	addresses *Addresses
	ports     *NodePorts
	clock     clock.Clock
	log       *slog.Logger

	// Abandoned is set where no other server works on this etcd: the revision
	// at which this one started. What is allocated up to there and belongs to
	// no service was left behind, and is given back without waiting.
	Abandoned int64

	leaks leaks
}

// repairInterval is how often Run looks.
const repairInterval = 3 * time.Minute

// NewRepair makes a Repair of what two allocators have given out.
func NewRepair(a *Addresses, p *NodePorts, clk clock.Clock, log *slog.Logger) *Repair {
	return &Repair{objects: a.objects, addresses: a, ports: p, clock: clk, log: log}
}

// Run repairs at once and then every few minutes, until ctx ends.
func (r *Repair) Run(ctx context.Context) error {
	for {
		if err := r.Once(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("could not repair the allocations of services", "error", err)
		}
		select {
		case <-r.clock.After(repairInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

// Once looks at everything once. It is not for concurrent use.
func (r *Repair) Once(ctx context.Context) error {
	return errors.Join(r.repairAddresses(ctx), r.repairPorts(ctx))
}
