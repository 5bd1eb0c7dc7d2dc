package allocation

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/store"
)

// passes is how many consecutive runs must find a port without a service before it is released: a port that is being
// allocated has no service yet.
const passes = 3

// leaks counts, for each port, the runs that found it without a service.
type leaks map[int32]int

// portReport is the result of one check of all node ports.
type portReport struct {
	findings []finding
	leaks    leaks
	// freed are the released ports.
	freed []int32
}

// repairPorts makes the stored set of node ports agree with the services.
func (r *Repair) repairPorts(ctx context.Context) error {
	if err := r.ports.lock(ctx); err != nil {
		return err
	}
	report, err := r.ports.reconcile(ctx, func(item *store.Item, port int32) bool {
		// What the only server finds from before its start is a leftover.
		return item.Rev <= r.Abandoned || r.leaks[port]+1 >= passes
	})
	r.ports.unlock()
	if err != nil {
		return fmt.Errorf("repair node ports: %w", err)
	}
	for port := range report.leaks {
		report.leaks[port] += r.leaks[port]
	}
	r.leaks = report.leaks
	for _, port := range report.freed {
		r.log.Warn("gave back a node port that no service has", "port", port)
	}
	r.ports.Metrics.found(report)
	r.report(ctx, "portallocator-repair-controller", report.findings)
	return nil
}

// reconcile stores the ports that services have, and the allocated ports without a service until abandoned returns true
// for them; nil: always keep them. The caller holds turn.
//
// It reads the set before the services. A service created in between has allocated its port in between, which changed
// the set, so the write of the outdated result conflicts.
func (n *NodePorts) reconcile(ctx context.Context, abandoned func(item *store.Item, port int32) bool) (portReport, error) {
	for {
		n.last = nil
		item, err := n.view.Latest(ctx, portsKey)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return portReport{}, err
		}
		stored := &portSet{portRange: n.ports}
		if item != nil {
			if stored, err = decodePorts(item.Value()); err != nil {
				return portReport{}, err
			}
		}
		list, err := n.objects.List(ctx, services, "")
		if err != nil {
			return portReport{}, err
		}
		all := make([]*corev1.Service, 0, len(list))
		for _, obj := range list {
			all = append(all, obj.(*corev1.Service))
		}
		rebuilt, report := rebuild(n.ports, stored, all, func(port int32) bool {
			return item != nil && abandoned != nil && abandoned(item, port)
		})
		done, err := n.replace(ctx, item, rebuilt)
		if err != nil || done {
			return report, err
		}
	}
}

// replace stores s in place of item, or creates it if item is nil. done is false if the stored set has changed.
func (n *NodePorts) replace(ctx context.Context, item *store.Item, s *portSet) (done bool, err error) {
	if item == nil {
		value, err := s.encode()
		if err != nil {
			return false, err
		}
		created, err := n.view.Create(ctx, portsKey, store.Write{Value: value})
		if errors.Is(err, store.ErrExists) {
			return false, nil
		}
		n.last = created
		return err == nil, err
	}
	n.last = item
	if value, err := s.encode(); err == nil && bytes.Equal(value, item.Value()) {
		return true, nil
	}
	conflict, err := n.swap(ctx, s)
	return !conflict, err
}

// rebuild computes the allocated ports of a range: those of the services, and the stored ones that are not abandoned.
func rebuild(r portRange, stored *portSet, all []*corev1.Service, abandoned func(port int32) bool) (*portSet, portReport) {
	s, report := &portSet{portRange: r}, portReport{leaks: leaks{}}
	for _, service := range all {
		for _, port := range nodePorts(service) {
			note := func(reason, format string, args ...any) {
				report.findings = append(report.findings, finding{about: service, reason: reason, action: "PortAllocation",
					note: fmt.Sprintf(format, args...)})
			}
			switch {
			case !r.contains(port):
				note("PortOutOfRange", "Port %d is outside of the range %s; recreate the service", port, r)
				continue
			case s.has(port):
				note("PortAlreadyAllocated", "Port %d is also that of another service; recreate one of them", port)
			case !stored.has(port):
				note("PortNotAllocated", "Port %d was not allocated, which is repaired", port)
			}
			s.add(port)
		}
	}
	stored.each(func(port int32) {
		switch {
		case s.has(port) || !r.contains(port):
		case abandoned(port):
			report.freed = append(report.freed, port)
		default:
			s.add(port)
			report.leaks[port] = 1
		}
	})
	return s, report
}
