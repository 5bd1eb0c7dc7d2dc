package allocation

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addressRange is the addresses of a prefix that services can have: all except the network's own and, for IPv4, the
// broadcast address.
type addressRange struct {
	prefix netip.Prefix
	// size is the number of addresses; the first reserved ones are allocated only when no other is left.
	size, reserved uint64
}

func newAddressRange(p netip.Prefix) addressRange {
	p = p.Masked()
	total := uint64(math.MaxUint64)
	if bits := p.Addr().BitLen() - p.Bits(); bits < 64 {
		total = 1 << bits
	}
	unusable := uint64(1)
	if p.Addr().Is4() {
		unusable = 2
	}
	return addressRange{prefix: p, size: total - min(total, unusable), reserved: reserved(total, 16, 256)}
}

// at returns the n-th address.
func (r *addressRange) at(n uint64) netip.Addr {
	if network := r.prefix.Addr(); network.Is4() {
		b := network.As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+1+uint32(n))
		return netip.AddrFrom4(b)
	}
	// The prefix of a range leaves at most the low 64 bits.
	b := r.prefix.Addr().As16()
	binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])+1+n)
	return netip.AddrFrom16(b)
}

func (r *addressRange) contains(a netip.Addr) bool {
	return r.prefix.Contains(a) && a != r.prefix.Addr() && (a.Is6() || a != r.at(r.size))
}

func (r *addressRange) family() corev1.IPFamily { return familyOf(r.prefix.Addr()) }

func familyOf(a netip.Addr) corev1.IPFamily {
	if a.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// defaultRange is the ServiceCIDR that a server creates from its own configuration. Its addresses are allocated first.
const defaultRange = "kubernetes"

// rangesOf returns the ranges of the ServiceCIDRs that use accepts, the default one first.
func rangesOf(ctx context.Context, objects Objects, use func(c *networkingv1.ServiceCIDR) bool) ([]addressRange, error) {
	list, err := objects.List(ctx, serviceCIDRs, "")
	if err != nil {
		return nil, err
	}
	var cidrs []*networkingv1.ServiceCIDR
	for _, obj := range list {
		if c := obj.(*networkingv1.ServiceCIDR); use(c) {
			cidrs = append(cidrs, c)
		}
	}
	rank := func(c *networkingv1.ServiceCIDR) int {
		if c.Name == defaultRange {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(cidrs, func(a, b *networkingv1.ServiceCIDR) int { return cmp.Compare(rank(a), rank(b)) })
	var out []addressRange
	for _, c := range cidrs {
		for _, s := range c.Spec.CIDRs {
			// Validation has rejected prefixes that do not parse; the size of a range wider than a /64 does not fit in
			// a uint64.
			if p, err := netip.ParsePrefix(s); err == nil && (p.Addr().Is4() || p.Bits() >= 64) {
				out = append(out, newAddressRange(p))
			}
		}
	}
	return out, nil
}

// ready reports whether addresses may be allocated from a ServiceCIDR. Without a Ready condition it is ready: its
// controller may not be running.
func ready(c *networkingv1.ServiceCIDR) bool {
	if c.DeletionTimestamp != nil {
		return false
	}
	for _, cond := range c.Status.Conditions {
		if cond.Type == networkingv1.ServiceCIDRConditionReady {
			return cond.Status == metav1.ConditionTrue
		}
	}
	return true
}
