package allocation

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/core"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
)

func TestAddressRange(t *testing.T) {
	for _, c := range []struct {
		prefix         string
		size, reserved uint64
		first, last    string
		out            []string
	}{
		{"10.0.0.0/24", 254, 16, "10.0.0.1", "10.0.0.254", []string{"10.0.0.0", "10.0.0.255", "10.0.1.1", "fd00::1"}},
		{"10.0.0.7/16", 65534, 256, "10.0.0.1", "10.0.255.254", []string{"10.0.0.0", "10.0.255.255"}},
		{"10.0.0.0/20", 4094, 256, "10.0.0.1", "10.0.15.254", nil},
		{"10.0.0.0/27", 30, 16, "10.0.0.1", "10.0.0.30", nil},
		{"10.0.0.0/28", 14, 0, "10.0.0.1", "10.0.0.14", nil},
		{"10.0.0.0/31", 0, 0, "", "", []string{"10.0.0.0", "10.0.0.1"}},
		{"10.0.0.4/32", 0, 0, "", "", []string{"10.0.0.4"}},
		{"fd00::/112", 65535, 256, "fd00::1", "fd00::ffff", []string{"fd00::", "fd00::1:0"}},
		{"fd00::/64", 1<<64 - 2, 256, "fd00::1", "fd00::ffff:ffff:ffff:fffe", []string{"fd00::"}},
		{"fd00::/128", 0, 0, "", "", []string{"fd00::"}},
	} {
		r := newAddressRange(netip.MustParsePrefix(c.prefix))
		if r.size != c.size || r.reserved != c.reserved {
			t.Errorf("%s: size %d, reserved %d; want %d, %d", c.prefix, r.size, r.reserved, c.size, c.reserved)
		}
		if c.size > 0 {
			first, last := r.at(0), r.at(r.size-1)
			if first != addr(c.first) || last != addr(c.last) || !r.contains(first) || !r.contains(last) {
				t.Errorf("%s: %s to %s; want %s to %s", c.prefix, first, last, c.first, c.last)
			}
		}
		for _, o := range c.out {
			if r.contains(addr(o)) {
				t.Errorf("%s contains %s", c.prefix, o)
			}
		}
	}
}

func TestChoices(t *testing.T) {
	for _, c := range []struct{ size, reserved uint64 }{{1, 0}, {14, 0}, {30, 16}, {254, 16}, {2768, 86}} {
		got := slices.Collect(choices(c.size, c.reserved, random(c.size)))
		for _, n := range got[:c.size-c.reserved] {
			if n < c.reserved {
				t.Errorf("%v: %d is chosen while there are others", c, n)
			}
		}
		slices.Sort(got)
		for n := range got {
			if got[n] != uint64(n) {
				t.Fatalf("%v: not every number once: %v", c, got)
			}
		}
		if uint64(len(got)) != c.size {
			t.Errorf("%v: %d numbers", c, len(got))
		}
	}
}

func TestAllocateAddress(t *testing.T) {
	s := newCluster(t).server(t, 1, 30000, 32767)
	s.cidr("kubernetes", "10.0.0.0/27", "fd00::/112")
	s.cidr("more", "10.1.0.0/24")
	unready := s.cidr("unready", "10.2.0.0/24")
	condition := func(c *networkingv1.ServiceCIDR, status metav1.ConditionStatus) {
		t.Helper()
		_, err := s.Update(t.Context(), serviceCIDRs, request.Same(c), false, func(o engine.Object) error {
			o.(*networkingv1.ServiceCIDR).Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: status}}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	condition(unready, metav1.ConditionFalse)
	var taken *TakenError
	var outside *RangeError
	for _, c := range []struct {
		name   string
		family corev1.IPFamily
		asked  string
		dryRun bool
		want   any // an address, the type of an error or an error
	}{
		{"any on a dry run", corev1.IPv4Protocol, "", true, "10.0.0.0"},
		{"any of the other family on a dry run", corev1.IPv6Protocol, "", true, "fd00::"},
		{"given on a dry run", corev1.IPv4Protocol, "10.0.0.1", true, "10.0.0.1"},
		{"given", corev1.IPv4Protocol, "10.0.0.1", false, "10.0.0.1"},
		{"taken, in the same name", corev1.IPv4Protocol, "10.0.0.1", false, &taken},
		{"taken on a dry run", corev1.IPv4Protocol, "10.0.0.1", true, "10.0.0.1"},
		{"of another range", corev1.IPv4Protocol, "10.1.0.9", false, "10.1.0.9"},
		{"network", corev1.IPv4Protocol, "10.0.0.0", false, &outside},
		{"broadcast", corev1.IPv4Protocol, "10.0.0.31", true, &outside},
		{"of no range", corev1.IPv4Protocol, "10.9.0.1", false, &outside},
		{"of the wrong family", corev1.IPv4Protocol, "fd00::1", false, &outside},
		{"of a range that is not ready", corev1.IPv4Protocol, "10.2.0.1", false, &outside},
		{"six", corev1.IPv6Protocol, "fd00::1", false, "fd00::1"},
	} {
		got, err := s.addresses.Allocate(t.Context(), service("a"), c.family, addr(c.asked), c.dryRun)
		if want, ok := c.want.(string); ok {
			if err != nil || got.String() != want {
				t.Errorf("%s: %s, %v; want %s", c.name, got, err, want)
			}
		} else if !errors.As(err, c.want) {
			t.Errorf("%s: %s, %v; want %T", c.name, got, err, c.want)
		}
	}
	if got, want := s.allocated(), map[string]string{"10.0.0.1": "services ns/a", "10.1.0.9": "services ns/a", "fd00::1": "services ns/a"}; !maps.Equal(got, want) {
		t.Errorf("allocated %v, want %v", got, want)
	}

	// The default range is exhausted first, except for its reserved addresses, then those, then the other range.
	for n := range 29 {
		got, err := s.addresses.Allocate(t.Context(), service("a"), corev1.IPv4Protocol, netip.Addr{}, false)
		if err != nil || !netip.MustParsePrefix("10.0.0.0/27").Contains(got) || (n < 14) != (got.As4()[3] > 16) {
			t.Fatalf("address %d: %s, %v", n, got, err)
		}
	}
	got, err := s.addresses.Allocate(t.Context(), service("a"), corev1.IPv4Protocol, netip.Addr{}, false)
	if err != nil || !netip.MustParsePrefix("10.1.0.0/24").Contains(got) {
		t.Errorf("after the default range: %s, %v", got, err)
	}

	// A range is used as soon as it is ready or has no Ready condition.
	condition(unready, metav1.ConditionTrue)
	if _, err := s.addresses.Allocate(t.Context(), service("a"), corev1.IPv4Protocol, addr("10.2.0.1"), false); err != nil {
		t.Errorf("of a range that has become ready: %v", err)
	}
}

func TestAddressesExhausted(t *testing.T) {
	s := newCluster(t).server(t, 1, 30000, 32767)
	if _, err := s.addresses.Allocate(t.Context(), service("a"), corev1.IPv4Protocol, netip.Addr{}, false); !errors.Is(err, core.ErrExhausted) {
		t.Errorf("without a range: %v", err)
	}
	s.cidr("kubernetes", "10.0.0.0/30")
	for range 2 {
		if _, err := s.addresses.Allocate(t.Context(), service("a"), corev1.IPv4Protocol, netip.Addr{}, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.addresses.Allocate(t.Context(), service("a"), corev1.IPv4Protocol, netip.Addr{}, false); !errors.Is(err, core.ErrExhausted) {
		t.Errorf("all taken: %v", err)
	}
}

func TestReleaseAddress(t *testing.T) {
	s := newCluster(t).server(t, 1, 30000, 32767)
	s.cidr("kubernetes", "10.0.0.0/24")
	a, b, stored := service("a"), service("b"), service("stored", "10.0.0.3")
	for n, svc := range []*corev1.Service{a, b, stored} {
		if _, err := s.addresses.Allocate(t.Context(), svc, corev1.IPv4Protocol, addr(fmt.Sprintf("10.0.0.%d", n+1)), false); err != nil {
			t.Fatal(err)
		}
	}
	s.put(stored)
	for _, c := range []struct {
		name    string
		service *corev1.Service
		address string
		gone    bool
	}{
		{"never allocated", a, "10.0.0.99", true},
		{"another's", a, "10.0.0.2", false},
		{"of a service that is stored with it", stored, "10.0.0.3", false},
		{"its own", a, "10.0.0.1", true},
	} {
		if err := s.addresses.Release(t.Context(), c.service, addr(c.address)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, has := s.allocated()[c.address]; has == c.gone {
			t.Errorf("%s: allocated is %t", c.name, has)
		}
	}
}

// TestIPAddressObject compares the object with the one that kube-apiserver creates.
func TestIPAddressObject(t *testing.T) {
	s := newCluster(t).server(t, 1, 30000, 32767)
	s.cidr("kubernetes", "10.0.0.0/24")
	if _, err := s.addresses.Allocate(t.Context(), service("x"), corev1.IPv4Protocol, addr("10.0.0.7"), false); err != nil {
		t.Fatal(err)
	}
	obj, err := s.Get(t.Context(), ipAddresses, "", "10.0.0.7")
	if err != nil {
		t.Fatal(err)
	}
	a := obj.(*networkingv1.IPAddress)
	want := map[string]string{"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}
	if !maps.Equal(a.Labels, want) || *a.Spec.ParentRef != (networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "x"}) {
		t.Errorf("got %v, %v", a.Labels, a.Spec.ParentRef)
	}
	if len(a.ManagedFields) != 1 || a.ManagedFields[0].Manager != "kube-apiserver" {
		t.Errorf("managed fields: %v", a.ManagedFields)
	}
}

func BenchmarkAllocateAddress(b *testing.B) {
	s := newCluster(b).server(b, 1, 30000, 32767)
	s.cidr("kubernetes", "10.0.0.0/12")
	svc := service("a")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.addresses.Allocate(b.Context(), svc, corev1.IPv4Protocol, netip.Addr{}, false); err != nil {
			b.Fatal(err)
		}
	}
}
