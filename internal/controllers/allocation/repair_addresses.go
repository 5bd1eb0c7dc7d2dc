package allocation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
)

// grace is how long an address may have no service: the write that it was allocated for may be in progress. No write
// takes longer.
const grace = 60 * time.Second

// inventory is all addresses and services at about the same time. An entry that is correct here is correct; any other
// is checked again before it is changed.
type inventory struct {
	addresses map[string]*networkingv1.IPAddress
	services  []*corev1.Service
	ranges    []addressRange
	// used contains the addresses of all services.
	used map[netip.Addr]bool
}

// repairAddresses makes the IPAddress objects agree with the services.
func (r *Repair) repairAddresses(ctx context.Context) error {
	inv, err := r.inventory(ctx)
	if err != nil {
		return fmt.Errorf("repair cluster IPs: %w", err)
	}
	var errs []error
	for _, s := range inv.services {
		for _, text := range clusterIPs(s) {
			errs = append(errs, r.checkUse(ctx, inv, s, text))
		}
	}
	for _, obj := range inv.addresses {
		errs = append(errs, r.checkAllocation(ctx, inv, obj))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("repair cluster IPs: %w", err)
	}
	return nil
}

func (r *Repair) inventory(ctx context.Context) (*inventory, error) {
	inv := &inventory{addresses: map[string]*networkingv1.IPAddress{}, used: map[netip.Addr]bool{}}
	// List addresses before services: each listed address then has its service, except for writes in progress.
	list, err := r.objects.List(ctx, ipAddresses, "")
	if err != nil {
		return nil, err
	}
	for _, obj := range list {
		inv.addresses[obj.GetName()] = obj.(*networkingv1.IPAddress)
	}
	if list, err = r.objects.List(ctx, services, ""); err != nil {
		return nil, err
	}
	for _, obj := range list {
		s := obj.(*corev1.Service)
		inv.services = append(inv.services, s)
		for _, text := range clusterIPs(s) {
			if address, ok := parseAddress(text); ok {
				inv.used[address] = true
			}
		}
	}
	inv.ranges, err = rangesOf(ctx, r.objects, func(*networkingv1.ServiceCIDR) bool { return true })
	return inv, err
}

const addressReporter = "ipallocator-repair-controller"

func (r *Repair) tell(ctx context.Context, about engine.Object, reason, action, format string, args ...any) {
	r.report(ctx, addressReporter, []finding{{about: about, reason: reason, action: action, note: fmt.Sprintf(format, args...)}})
}

// checkUse allocates an address to the service that has it, if necessary.
func (r *Repair) checkUse(ctx context.Context, inv *inventory, s *corev1.Service, text string) error {
	address, ok := parseAddress(text)
	if !ok {
		r.tell(ctx, s, "ClusterIPNotValid", "ClusterIPValidation", "Cluster IP %s is not an address; recreate the service", text)
		return nil
	}
	if !slices.ContainsFunc(inv.ranges, func(a addressRange) bool { return a.contains(address) }) {
		r.tell(ctx, s, "ClusterIPOutOfRange", "ClusterIPAllocation", "Cluster IP %s is in no ServiceCIDR; recreate the service", address)
		return nil
	}
	if inOrder(inv.addresses[address.String()], s, address) {
		return nil
	}
	s, err := storedService(ctx, r.objects, s.Namespace, s.Name)
	if err != nil || s == nil || !hasAddress(s, address) {
		return err
	}
	obj, err := r.objects.Get(ctx, ipAddresses, "", address.String())
	if apierrors.IsNotFound(err) {
		r.tell(ctx, s, "ClusterIPNotAllocated", "ClusterIPAllocation", "Cluster IP %s was not allocated, which is repaired", address)
		err := r.addresses.take(ctx, s, address)
		var taken *TakenError
		if errors.As(err, &taken) {
			return nil // another server's repair has done it, or the next run will
		}
		return err
	}
	if err != nil {
		return err
	}
	return r.adopt(ctx, s, obj.(*networkingv1.IPAddress), address)
}

// inOrder reports whether an address is correctly allocated to a service.
func inOrder(obj *networkingv1.IPAddress, s *corev1.Service, address netip.Addr) bool {
	return obj != nil && isFor(obj, s.Namespace, s.Name) && managed(obj) &&
		obj.Labels[networkingv1.LabelIPAddressFamily] == string(familyOf(address))
}

func managed(obj *networkingv1.IPAddress) bool {
	return obj.Labels[networkingv1.LabelManagedBy] == ManagedBy
}

// adopt allocates to a service an address that it has, unless another service has it too or may be about to. The object
// is updated, not recreated: after a deletion, another service could take the address.
func (r *Repair) adopt(ctx context.Context, s *corev1.Service, obj *networkingv1.IPAddress, address netip.Addr) error {
	if inOrder(obj, s, address) {
		return nil
	}
	if p := obj.Spec.ParentRef; p != nil && p.Group == "" && p.Resource == services.Resource && !isFor(obj, s.Namespace, s.Name) {
		other, err := storedService(ctx, r.objects, p.Namespace, p.Name)
		switch {
		case err != nil:
			return err
		case other != nil && hasAddress(other, address):
			r.tell(ctx, s, "ClusterIPAlreadyAllocated", "ClusterIPAllocation",
				"Cluster IP %s is also that of service %s/%s; recreate one of them", address, p.Namespace, p.Name)
			return nil
		case !r.abandoned(obj):
			return nil
		}
	}
	if !isFor(obj, s.Namespace, s.Name) {
		r.tell(ctx, s, "ClusterIPNotAllocated", "ClusterIPAllocation", "Cluster IP %s was allocated to something else, which is repaired", address)
	}
	_, err := r.objects.Update(ctx, ipAddresses, request.Unchanged(obj), false, func(o engine.Object) error {
		hold(o.(*networkingv1.IPAddress), s, address)
		return nil
	})
	if apierrors.IsConflict(err) {
		return nil // it has changed: the next run looks again
	}
	return err
}

// checkAllocation releases an address that no service has. It ignores addresses that others created.
func (r *Repair) checkAllocation(ctx context.Context, inv *inventory, obj *networkingv1.IPAddress) error {
	address, ok := parseAddress(obj.Name)
	if !ok || !managed(obj) || inv.used[address] || !r.abandoned(obj) {
		return nil
	}
	if p := obj.Spec.ParentRef; p != nil && p.Group == "" && p.Resource == services.Resource {
		s, err := storedService(ctx, r.objects, p.Namespace, p.Name)
		if err != nil || s != nil && hasAddress(s, address) {
			return err
		}
	}
	r.tell(ctx, obj, "IPAddressNotAllocated", "IPAddressAllocation", "Address %s is allocated, but no service has it; it is given back", address)
	return r.addresses.free(ctx, obj)
}

// abandoned reports whether no write in progress can need the address.
func (r *Repair) abandoned(obj *networkingv1.IPAddress) bool {
	if rev, err := strconv.ParseInt(obj.ResourceVersion, 10, 64); err == nil && rev <= r.Abandoned {
		return true
	}
	return r.clock.Since(obj.CreationTimestamp.Time) > grace
}
