package controllers

import (
	"context"
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/controllers/allocation"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// rangeFinalizer keeps a ServiceCIDR until no address would be left without a range.
const rangeFinalizer = "networking.k8s.io/service-cidr-finalizer"

// rangeGrace is how long a deleted ServiceCIDR stays although nothing needs it: other servers may allocate addresses
// from it until they have seen the deletion.
const rangeGrace = 10 * time.Second

// runServiceCIDRs reports ServiceCIDRs as ready, and keeps deleted ones while they are the only range of an address that
// is in use.
func runServiceCIDRs(ctx context.Context, c Config, cl *inprocess.Client) {
	group := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: networkingv1.GroupName, Resource: resource}
	}
	ep := c.endpoint(group("servicecidrs"))
	k := &rangeKeeper{Config: c, client: cl, endpoint: ep, ranges: engine.IndexOf[*networkingv1.ServiceCIDR](ep),
		addresses: engine.IndexOf[*networkingv1.IPAddress](c.endpoint(group("ipaddresses"))), waiting: make(chan struct{}, 1)}
	k.protector = &protector[*networkingv1.ServiceCIDR]{endpoint: ep, objects: k.ranges, client: cl, finalizer: rangeFinalizer}
	k.protector.used = k.used
	c.work(ctx, "servicecidrs", k.look, k.followRanges, whenNeeded(k.waiting, func(ctx context.Context, q *queue.Queue, caught func(int64)) {
		k.addresses.Follow(ctx, func(c store.Change[*networkingv1.IPAddress]) {
			if a, err := netip.ParseAddr(c.Name()); err == nil {
				k.queueWith(ctx, q, func(p netip.Prefix) bool { return p.Contains(a) })
			}
		}, caught)
	}, k.protector.again))
}

// rangeKeeper is the controller of ServiceCIDRs.
type rangeKeeper struct {
	Config
	client    *inprocess.Client
	endpoint  *engine.Endpoint
	ranges    *store.Index[*networkingv1.ServiceCIDR]
	addresses *store.Index[*networkingv1.IPAddress]
	protector *protector[*networkingv1.ServiceCIDR]
	// waiting receives a value once a range waits for addresses: before that the controller does not follow them.
	waiting chan struct{}
}

// look does the pending work for one ServiceCIDR.
func (k *rangeKeeper) look(ctx context.Context, name string) (again time.Duration, err error) {
	r, ok, err := get(ctx, k.ranges, name)
	if !ok {
		return 0, err
	}
	if r.DeletionTimestamp == nil {
		if err := k.protector.look(ctx, name); err != nil {
			return 0, err
		}
		return 0, k.report(ctx, r, metav1.Condition{Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready"})
	}
	used, err := k.used(ctx, r)
	switch left := r.DeletionTimestamp.Add(rangeGrace).Sub(k.Clock.Now()); {
	case err != nil:
		return 0, err
	case used:
		return 0, k.report(ctx, r, metav1.Condition{Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating,
			Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"})
	case left > 0:
		return left, nil
	}
	return 0, k.protector.look(ctx, name)
}

// used says that an address would be in no range without r.
func (k *rangeKeeper) used(ctx context.Context, r *networkingv1.ServiceCIDR) (bool, error) {
	if err := k.Store.Fresh(ctx); err != nil {
		return false, err
	}
	ranges, err := k.ranges.Objects(ctx, "")
	if err != nil {
		return false, err
	}
	var others []netip.Prefix // of ranges that stay
	for _, other := range ranges {
		if other.Name != r.Name && other.DeletionTimestamp == nil {
			others = append(others, prefixes(other)...)
		}
	}
	var alone []netip.Prefix // parts of r that no other range contains whole
	for _, p := range prefixes(r) {
		if !containedIn(p, others) {
			alone = append(alone, p)
		}
	}
	if len(alone) == 0 {
		return false, nil
	}
	select {
	case k.waiting <- struct{}{}:
	default:
	}
	addresses, err := k.addresses.Objects(ctx, "")
	if err != nil {
		return false, err
	}
	for _, obj := range addresses {
		a, err := netip.ParseAddr(obj.Name)
		if err != nil || obj.Labels[networkingv1.LabelManagedBy] != allocation.ManagedBy {
			continue
		}
		if containedIn(netip.PrefixFrom(a, a.BitLen()), alone) && !containedIn(netip.PrefixFrom(a, a.BitLen()), others) {
			return true, nil
		}
	}
	return false, nil
}

// report writes the condition Ready into the status of a ServiceCIDR, unless it is there already.
func (k *rangeKeeper) report(ctx context.Context, r *networkingv1.ServiceCIDR, want metav1.Condition) error {
	want.Type, want.LastTransitionTime = networkingv1.ServiceCIDRConditionReady, metav1.NewTime(k.Clock.Now())
	for _, c := range r.Status.Conditions {
		if c.Type == want.Type && c.Status == want.Status && c.Reason == want.Reason && c.Message == want.Message {
			return nil
		}
	}
	return ignoreMissing(k.client.Managing("service-cidr-controller").Apply(ctx, at(k.endpoint, "status"), request.Same(r), map[string]any{
		"apiVersion": networkingv1.SchemeGroupVersion.String(), "kind": "ServiceCIDR", "metadata": map[string]any{"name": r.Name},
		"status": map[string]any{"conditions": []metav1.Condition{want}},
	}))
}

// followRanges queues ServiceCIDRs after changes of their own and of those that overlap with them.
func (k *rangeKeeper) followRanges(ctx context.Context, q *queue.Queue, begun, ended func()) {
	k.ranges.Join(ctx, ended, func(c store.Change[*networkingv1.ServiceCIDR]) {
		q.Add(c.Name())
		changed := c.Now
		if changed == nil {
			changed, _ = c.Was(ctx)
		}
		if changed != nil && (c.Gone || c.Added()) {
			of := prefixes(changed)
			k.queueWith(ctx, q, func(p netip.Prefix) bool {
				for _, other := range of {
					if p.Overlaps(other) {
						return true
					}
				}
				return false
			})
		}
	}, func(int64) { begun() })
}

// queueWith queues the ServiceCIDRs that have a prefix which fits.
func (k *rangeKeeper) queueWith(ctx context.Context, q *queue.Queue, fits func(netip.Prefix) bool) {
	ranges, err := k.ranges.Objects(ctx, "")
	if err != nil {
		return // ctx has ended
	}
	for _, r := range ranges {
		for _, p := range prefixes(r) {
			if fits(p) {
				q.Add(r.Name)
			}
		}
	}
}

// prefixes returns the prefixes of a ServiceCIDR.
func prefixes(r *networkingv1.ServiceCIDR) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range r.Spec.CIDRs {
		if p, err := netip.ParsePrefix(s); err == nil { // validation has rejected all others
			out = append(out, p.Masked())
		}
	}
	return out
}

// containedIn says that one of the prefixes contains all of p.
func containedIn(p netip.Prefix, in []netip.Prefix) bool {
	for _, other := range in {
		if other.Bits() <= p.Bits() && other.Contains(p.Addr()) {
			return true
		}
	}
	return false
}
