package allocation

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
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

// foundPause is how long a service without an allocated address waits for a run.
const foundPause = time.Second

// Run repairs at once and then every few minutes, and soon after a service was stored whose address is not allocated,
// until ctx ends.
func (r *Repair) Run(ctx context.Context) error {
	found := make(chan struct{}, 1)
	var following sync.WaitGroup
	defer following.Wait()
	following.Add(1)
	r.follow(ctx, following.Done, found)
	for {
		if err := r.Once(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("could not repair the allocations of services", "error", err)
		}
		select {
		case <-r.clock.After(repairInterval):
			continue
		case <-found: // more may come at once
		case <-ctx.Done():
			return nil
		}
		select {
		case <-r.clock.After(foundPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// follow reports services that were stored, by whatever way, without that their addresses are allocated. Through the API
// an address is allocated before its service is stored, so the addresses of these are known already.
func (r *Repair) follow(ctx context.Context, ended func(), found chan<- struct{}) {
	ep, err := r.objects.Endpoint(services)
	if err != nil {
		ended()
		return
	}
	addresses, err := r.objects.View(ipAddresses)
	if err != nil {
		ended()
		return
	}
	asked := map[types.UID]bool{} // what cannot be repaired is reported by the runs that come anyway
	engine.IndexOf[*corev1.Service](ep).Join(ctx, ended, func(c store.Change[*corev1.Service]) {
		if was, ok := c.Was(ctx); ok && c.Gone {
			delete(asked, was.UID)
		}
		if c.Now == nil || asked[c.Now.UID] {
			return
		}
		for _, text := range clusterIPs(c.Now) {
			address, ok := parseAddress(text)
			if !ok {
				continue
			}
			if _, err := addresses.Get(ctx, address.String()); errors.Is(err, store.ErrNotFound) {
				asked[c.Now.UID] = true
				select {
				case found <- struct{}{}:
				default: // a run is due
				}
			}
		}
	}, nil)
}

// Once runs one repair. It is not safe for concurrent use.
func (r *Repair) Once(ctx context.Context) error {
	addresses, ports := r.repairAddresses(ctx), r.repairPorts(ctx)
	r.ports.Metrics.repaired(addresses, ports)
	return errors.Join(addresses, ports)
}
