package core

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// Addresses allocates the cluster IPs of services. A service keeps an allocated address until it is released.
type Addresses interface {
	// Families returns the address families of this cluster, one or two, the primary one first.
	Families() []corev1.IPFamily
	// Allocate allocates an address of a family: the given one, or any for the zero Addr. On a dry run it allocates
	// nothing and returns the possible result. The error wraps ErrExhausted if no address is left.
	Allocate(ctx context.Context, service *corev1.Service, family corev1.IPFamily, address netip.Addr, dryRun bool) (netip.Addr, error)
	Release(ctx context.Context, service *corev1.Service, address netip.Addr) error
}

// NodePorts allocates node ports.
type NodePorts interface {
	// Allocate allocates a port: the given one, or any if it is zero. On a dry run it allocates nothing, and rejects
	// only allocated ports, not ports outside of the range. The error wraps ErrExhausted if no port is left.
	Allocate(ctx context.Context, service *corev1.Service, port int32, dryRun bool) (int32, error)
	Release(ctx context.Context, service *corev1.Service, port int32) error
}

// ErrExhausted means that nothing is left to allocate.
var ErrExhausted = errors.New("range is full")

// allocator allocates and releases the addresses and ports of services.
type allocator struct {
	addresses Addresses
	ports     NodePorts
	sloppy    bool // addresses may have forms that are no longer valid
}

// acquisition is what one write has allocated, and what is released once it is stored.
type acquisition struct {
	allocator
	ctx     context.Context //nolint:containedctx // of the one write this belongs to
	service *corev1.Service
	dryRun  bool

	ips, oldIPs     []netip.Addr
	ports, oldPorts []int32
}

func (a allocator) begin(ctx context.Context, s *corev1.Service, dryRun bool) *acquisition {
	// A write whose client has gone must still release what it allocated.
	return &acquisition{allocator: a, ctx: context.WithoutCancel(ctx), service: s, dryRun: dryRun}
}

// end finishes the write: if it was stored, it releases what the write replaced; if not, what it allocated.
func (q *acquisition) end(stored bool) {
	if q.dryRun {
		return
	}
	ips, ports := q.ips, q.ports
	if stored {
		ips, ports = q.oldIPs, q.oldPorts
	}
	q.release(ips, ports)
}

// release releases addresses and ports. The allocators' repair loops release what remains after an error.
func (q *acquisition) release(ips []netip.Addr, ports []int32) {
	for _, ip := range ips {
		_ = q.addresses.Release(q.ctx, q.service, ip)
	}
	for _, p := range ports {
		_ = q.allocator.ports.Release(q.ctx, q.service, p)
	}
}

func (a allocator) beginCreate(ctx context.Context, s *corev1.Service, dryRun bool) (func(bool), error) {
	q := a.begin(ctx, s, dryRun)
	err := q.create()
	if err != nil {
		q.end(false)
		return nil, err
	}
	return q.end, nil
}

func (q *acquisition) create() error {
	alignAddresses(q.service, nil)
	if err := q.chooseFamilies(q.service, nil); err != nil {
		return err
	}
	if err := q.takeAddresses(); err != nil {
		return err
	}
	if hasNodePorts(q.service) {
		if err := q.takePorts(); err != nil {
			return err
		}
	}
	return q.takeHealthPort(nil)
}

func (a allocator) beginUpdate(ctx context.Context, s, old *corev1.Service, dryRun bool) (func(bool), error) {
	q := a.begin(ctx, s, dryRun)
	if err := q.update(a.readFamilies(old)); err != nil {
		q.end(false)
		return nil, err
	}
	return q.end, nil
}

func (q *acquisition) update(old *corev1.Service) error {
	carryAllocated(q.service, old)
	alignAddresses(q.service, old)
	if err := q.chooseFamilies(q.service, old); err != nil {
		return err
	}
	if !keepsFamilies(q.service, old) {
		if err := q.changeAddresses(old); err != nil {
			return err
		}
	}
	if hasNodePorts(q.service) {
		if err := q.changePorts(old); err != nil {
			return err
		}
	} else if hasNodePorts(old) && slices.Contains(serviceTypes, q.service.Spec.Type) {
		q.oldPorts = append(q.oldPorts, nodePorts(old)...)
	}
	return q.takeHealthPort(old)
}

// takeAddresses allocates an address for each of a service's families.
func (q *acquisition) takeAddresses() error {
	spec := &q.service.Spec
	if !hasClusterIP(q.service) || len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] == corev1.ClusterIPNone {
		return nil
	}
	for i := range spec.IPFamilies {
		if err := q.takeAddress(i); err != nil {
			return err
		}
	}
	return nil
}

// takeAddress allocates a service's i-th address.
func (q *acquisition) takeAddress(i int) error {
	spec := &q.service.Spec
	for len(spec.ClusterIPs) <= i {
		spec.ClusterIPs = append(spec.ClusterIPs, "")
	}
	var asked netip.Addr
	if text := spec.ClusterIPs[i]; text != "" {
		ip, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(text))
		if !ok {
			return apierrors.NewInternalError(fmt.Errorf("parse cluster IP %q", text))
		}
		asked = ip.Unmap()
	}
	ip, err := q.addresses.Allocate(q.ctx, q.service, spec.IPFamilies[i], asked, q.dryRun)
	if errors.Is(err, ErrExhausted) && !asked.IsValid() {
		return apierrors.NewInternalError(fmt.Errorf("allocate an address for service %q: %w", q.service.Name, err))
	}
	if err != nil {
		return invalidService(q.service, field.ErrorList{field.Invalid(field.NewPath("spec", "clusterIPs"), spec.ClusterIPs, err.Error())})
	}
	q.ips = append(q.ips, ip)
	if !asked.IsValid() {
		spec.ClusterIPs[i] = ip.String()
	}
	if i == 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	return nil
}

// changeAddresses allocates or releases addresses after a change of the type or the families.
func (q *acquisition) changeAddresses(old *corev1.Service) error {
	s := q.service
	switch now, before := len(s.Spec.IPFamilies), len(old.Spec.IPFamilies); {
	case !hasClusterIP(old) && hasClusterIP(s):
		return q.takeAddresses()
	case isNone(old):
	case hasClusterIP(old) && !hasClusterIP(s):
		q.giveBack(old.Spec.ClusterIPs)
	case before == 1 && now == 2:
		return q.takeAddress(1)
	case before == 2 && now == 1 && len(old.Spec.ClusterIPs) == 2:
		q.giveBack(old.Spec.ClusterIPs[1:])
	}
	return nil
}

func isNone(s *corev1.Service) bool {
	return len(s.Spec.ClusterIPs) > 0 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

func (q *acquisition) giveBack(ips []string) {
	for _, text := range ips {
		if ip, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(text)); ok {
			q.oldIPs = append(q.oldIPs, ip.Unmap())
		}
	}
}

// takePorts allocates node ports for a new service. Ports with the same number and different protocols share one,
// unless they specify others.
func (q *acquisition) takePorts() error {
	shared := map[int32]int32{}
	list := q.service.Spec.Ports
	for i := range list {
		p := &list[i]
		if p.NodePort == 0 && !wantsNodePorts(q.service) {
			continue
		}
		got := shared[p.Port]
		switch {
		case got != 0 && (p.NodePort == 0 || p.NodePort == got):
			p.NodePort = got
			continue
		case got != 0:
			if _, err := q.takePort(p.NodePort, i); err != nil {
				return err
			}
			continue
		}
		asked := int32(0)
		for j := range list {
			if list[j].Port == p.Port && list[j].NodePort != 0 {
				asked = list[j].NodePort
				break
			}
		}
		port, err := q.takePort(asked, i)
		if err != nil {
			return err
		}
		p.NodePort, shared[p.Port] = port, port
	}
	return nil
}

// takePort allocates one node port, for the i-th port of the service.
func (q *acquisition) takePort(asked int32, i int) (int32, error) {
	if asked != 0 && slices.Contains(q.ports, asked) {
		return 0, refusedPort(q.service, asked, i, "provided port is already allocated")
	}
	port, err := q.anyPort(asked)
	if err != nil && asked == 0 {
		return 0, apierrors.NewInternalError(fmt.Errorf("allocate a node port: %w", err))
	}
	if err != nil {
		return 0, refusedPort(q.service, asked, i, err.Error())
	}
	q.ports = append(q.ports, port)
	return port, nil
}

// anyPort allocates a port. On a dry run without a requested port it returns, as upstream, the number after the highest
// port of this write.
func (q *acquisition) anyPort(asked int32) (int32, error) {
	if q.dryRun && asked == 0 && len(q.ports) > 0 {
		return slices.Max(q.ports) + 1, nil
	}
	return q.allocator.ports.Allocate(q.ctx, q.service, asked, q.dryRun)
}

func refusedPort(s *corev1.Service, port int32, i int, why string) error {
	at := field.NewPath("spec", "ports").Index(i).Child("nodePort")
	return invalidService(s, field.ErrorList{field.Invalid(at, port, why)})
}

// changePorts allocates node ports for new ports, and releases unused ones.
func (q *acquisition) changePorts(old *corev1.Service) error {
	had := nodePorts(old)
	list := q.service.Spec.Ports
	for i := range list {
		p := &list[i]
		if p.NodePort == 0 && !wantsNodePorts(q.service) {
			continue
		}
		if p.NodePort == 0 || !slices.Contains(had, p.NodePort) && !slices.Contains(q.ports, p.NodePort) {
			port, err := q.takePort(p.NodePort, i)
			if err != nil {
				return err
			}
			p.NodePort = port
		}
		for j := range i {
			if list[j].Protocol == p.Protocol && list[j].NodePort == p.NodePort {
				return fmt.Errorf("node port %d is given to two ports of protocol %s", p.NodePort, p.Protocol)
			}
		}
	}
	has := nodePorts(q.service)
	for _, p := range had {
		if !slices.Contains(has, p) {
			q.oldPorts = append(q.oldPorts, p)
		}
	}
	return nil
}

// healthPortError has kube-apiserver's words for a port that was asked for.
func healthPortError(asked int32, err error) error {
	if asked == 0 {
		return fmt.Errorf("failed to allocate a HealthCheck NodePort: %w", err)
	}
	return fmt.Errorf("failed to allocate requested HealthCheck NodePort %d: %w", asked, err)
}

// takeHealthPort allocates or releases the health check port if necessary; old is nil on create.
func (q *acquisition) takeHealthPort(old *corev1.Service) error {
	had, has := old != nil && hasHealthPort(old), hasHealthPort(q.service)
	if had && !has {
		q.oldPorts = append(q.oldPorts, old.Spec.HealthCheckNodePort)
	}
	if had || !has {
		return nil
	}
	port, err := q.anyPort(q.service.Spec.HealthCheckNodePort)
	if err != nil {
		return apierrors.NewInternalError(healthPortError(q.service.Spec.HealthCheckNodePort, err))
	}
	q.ports = append(q.ports, port)
	q.service.Spec.HealthCheckNodePort = port
	return nil
}

// deleted releases everything that a deleted service had.
func (a allocator) deleted(ctx context.Context, s *corev1.Service, dryRun bool) {
	if dryRun {
		return
	}
	q := a.begin(ctx, s, false)
	if hasClusterIP(s) && !isNone(s) {
		alignAddresses(s, nil)
		q.giveBack(s.Spec.ClusterIPs)
	}
	ports := nodePorts(s)
	if hasHealthPort(s) && s.Spec.HealthCheckNodePort > 0 {
		ports = append(ports, s.Spec.HealthCheckNodePort)
	}
	q.release(q.oldIPs, ports)
}
