package allocation

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/utils/clock"
)

// Repair makes allocations agree with the stored services: it allocates what a service has, and releases what no
// service has. It repairs the effects of a crash between an allocation and its write.
type Repair struct {
	objects   Objects
	addresses *Addresses
	ports     *NodePorts
	clock     clock.Clock
	log       *slog.Logger

	// Abandoned is set if no other server works on this etcd: it is the revision at which this server started.
	// Allocations up to that revision without a service are leftovers, and are released without a waiting time.
	Abandoned int64

	leaks leaks
}

// repairInterval is the time between two runs.
const repairInterval = 3 * time.Minute

// NewRepair creates a Repair of two allocators.
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

// Once runs one repair. It is not safe for concurrent use.
func (r *Repair) Once(ctx context.Context) error {
	addresses, ports := r.repairAddresses(ctx), r.repairPorts(ctx)
	r.ports.Metrics.repaired(addresses, ports)
	return errors.Join(addresses, ports)
}
