package allocation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/api/builtin/core"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Addresses allocates the cluster IPs of services from the existing ServiceCIDRs. It is safe for concurrent use.
type Addresses struct {
	objects  Objects
	families []corev1.IPFamily
	random   Random
	clock    clock.PassiveClock
	// Metrics are set before the first use; nil: nothing is measured.
	Metrics *Metrics
}

var _ core.Addresses = (*Addresses)(nil)

// NewAddresses creates an allocator for a cluster with one or two address families, the primary one first.
func NewAddresses(objects Objects, families []corev1.IPFamily, random Random, clk clock.PassiveClock) *Addresses {
	return &Addresses{objects: objects, families: families, random: random, clock: clk}
}

// Families is part of core.Addresses.
func (a *Addresses) Families() []corev1.IPFamily { return a.families }

// Allocate is part of core.Addresses. Errors are *RangeError, *TakenError, or wrap core.ErrExhausted.
//
// An address that is allocated to a service of the same name is taken too: that service may exist, or another request
// may be creating it, and releasing the address after a failure would take it from that service.
//
// A dry run checks only whether an address is in a range, not whether it is free, because the service itself may hold
// it. If no address is requested, a dry run returns the network's own address, which no service ever has.
func (a *Addresses) Allocate(ctx context.Context, service *corev1.Service, family corev1.IPFamily, address netip.Addr, dryRun bool) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ranges, err := rangesOf(ctx, a.objects, ready)
	if err != nil {
		return netip.Addr{}, err
	}
	ranges = slices.DeleteFunc(ranges, func(r addressRange) bool { return r.family() != family })
	began := time.Now()
	if address.IsValid() {
		err := a.allocateOne(ctx, service, ranges, address, dryRun)
		if in := slices.IndexFunc(ranges, func(r addressRange) bool { return r.contains(address) }); in >= 0 && !dryRun {
			a.Metrics.address(ranges[in].prefix, true, began, err)
		}
		return address, err
	}
	for i := range ranges {
		if dryRun {
			return ranges[i].prefix.Addr(), nil
		}
		got, err := a.allocateAny(ctx, service, &ranges[i])
		failed := err
		if failed == nil && !got.IsValid() {
			failed = core.ErrExhausted
		}
		a.Metrics.address(ranges[i].prefix, false, began, failed)
		if err != nil || got.IsValid() {
			return got, err
		}
	}
	return netip.Addr{}, core.ErrExhausted
}

func (a *Addresses) allocateOne(ctx context.Context, service *corev1.Service, ranges []addressRange, address netip.Addr, dryRun bool) error {
	if !slices.ContainsFunc(ranges, func(r addressRange) bool { return r.contains(address) }) {
		return &RangeError{fmt.Sprintf("failed to allocate IP %s: the provided network does not match the current range", address)}
	}
	if dryRun {
		return nil
	}
	return a.take(ctx, service, address)
}

// allocateAny allocates an address of a range; it returns the zero Addr if the range is full.
func (a *Addresses) allocateAny(ctx context.Context, service *corev1.Service, r *addressRange) (netip.Addr, error) {
	view, err := a.objects.View(ipAddresses)
	if err != nil {
		return netip.Addr{}, err
	}
	for n := range choices(r.size, r.reserved, a.random) {
		address := r.at(n)
		// The view may be behind: addresses that it does not list are tried.
		if _, err := view.Get(ctx, address.String()); err == nil {
			continue
		} else if !errors.Is(err, store.ErrNotFound) {
			return netip.Addr{}, err
		}
		err := a.take(ctx, service, address)
		var taken *TakenError
		if errors.As(err, &taken) {
			continue
		}
		if err != nil {
			return netip.Addr{}, err
		}
		return address, nil
	}
	return netip.Addr{}, nil
}

// take creates the IPAddress object of an address.
func (a *Addresses) take(ctx context.Context, service *corev1.Service, address netip.Addr) error {
	obj := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: address.String()}}
	hold(obj, service, address)
	now := metav1.NewTime(a.clock.Now().Truncate(1e9))
	obj.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kube-apiserver", Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: networkingv1.SchemeGroupVersion.String(), Time: &now,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(heldFields),
	}}
	_, err := a.objects.Create(ctx, ipAddresses, obj)
	if apierrors.IsAlreadyExists(err) {
		return &TakenError{fmt.Sprintf("failed to allocate IP %s: provided IP", address)}
	}
	return err
}

// ManagedBy labels addresses that are allocated to services, to distinguish them from those that others create.
const ManagedBy = "ipallocator.k8s.io"

// hold records in obj that address is allocated to a service.
func hold(obj *networkingv1.IPAddress, service *corev1.Service, address netip.Addr) {
	if obj.Labels == nil {
		obj.Labels = make(map[string]string, 2)
	}
	obj.Labels[networkingv1.LabelIPAddressFamily] = string(familyOf(address))
	obj.Labels[networkingv1.LabelManagedBy] = ManagedBy
	obj.Spec.ParentRef = &networkingv1.ParentReference{Resource: services.Resource, Namespace: service.Namespace, Name: service.Name}
}

// heldFields are the fields that hold sets, in the format of managed fields.
const heldFields = `{"f:metadata":{"f:labels":{".":{},"f:ipaddress.kubernetes.io/ip-family":{},"f:ipaddress.kubernetes.io/managed-by":{}}},` +
	`"f:spec":{"f:parentRef":{".":{},"f:name":{},"f:namespace":{},"f:resource":{}}}}`

// isFor reports whether an address is allocated to the service of that name.
func isFor(obj *networkingv1.IPAddress, namespace, name string) bool {
	p := obj.Spec.ParentRef
	return p != nil && p.Group == "" && p.Resource == services.Resource && p.Namespace == namespace && p.Name == name
}

// Release is part of core.Addresses. It keeps an address that now belongs to another service, or that the stored
// service still has.
func (a *Addresses) Release(ctx context.Context, service *corev1.Service, address netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	obj, err := a.objects.Get(ctx, ipAddresses, "", address.String())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !isFor(obj.(*networkingv1.IPAddress), service.Namespace, service.Name) {
		return nil
	}
	stored, err := storedService(ctx, a.objects, service.Namespace, service.Name)
	if err != nil || stored != nil && hasAddress(stored, address) {
		return err
	}
	return a.free(ctx, obj)
}

// free deletes an address as it was seen.
func (a *Addresses) free(ctx context.Context, obj engine.Object) error {
	err := a.objects.Delete(ctx, ipAddresses, request.Unchanged(obj), nil)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// storedService returns the service of a name, or nil if there is none.
func storedService(ctx context.Context, objects Objects, namespace, name string) (*corev1.Service, error) {
	obj, err := objects.Get(ctx, services, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Service), nil
}
