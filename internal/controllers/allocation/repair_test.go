package allocation

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
)

// address stores an IPAddress without validation.
func (s *server) address(name, family, manager string, parent networkingv1.ParentReference) {
	s.t.Helper()
	obj := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: family, networkingv1.LabelManagedBy: manager,
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &parent},
	}
	if _, err := s.Create(s.t.Context(), ipAddresses, obj); err != nil {
		s.t.Fatal(err)
	}
}

func parent(resource, name string) networkingv1.ParentReference {
	return networkingv1.ParentReference{Resource: resource, Namespace: "ns", Name: name}
}

func (s *server) repairOnce() {
	s.t.Helper()
	if err := s.repair.Once(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func TestRepairAddresses(t *testing.T) {
	c := newCluster(t)
	s := c.server(t, 1, 30000, 32767)
	s.cidr("kubernetes", "10.0.0.0/24", "fd00::/112")
	s.put(service("good", "10.0.0.1"))
	s.address("10.0.0.1", "IPv4", ManagedBy, parent("services", "good"))
	s.put(service("lost", "10.0.0.2", "fd00::2"))
	s.put(service("outside", "10.9.0.1"))
	s.put(service("nonsense", "10.0.0.300"))
	s.put(service("headless", corev1.ClusterIPNone))
	s.put(service("external"))
	s.put(service("robbed", "10.0.0.3"))
	s.address("10.0.0.3", "IPv4", ManagedBy, parent("services", "gone"))
	s.put(service("unlabelled", "10.0.0.4"))
	s.address("10.0.0.4", "IPv6", "", parent("services", "unlabelled"))
	s.put(service("strange", "10.0.0.5"))
	s.address("10.0.0.5", "IPv4", ManagedBy, parent("gateways", "strange"))
	s.put(service("double", "10.0.0.1"))
	s.address("10.0.0.6", "IPv4", ManagedBy, parent("services", "gone"))
	s.address("10.0.0.7", "IPv4", ManagedBy, parent("services", "good"))
	s.address("10.0.0.8", "IPv4", ManagedBy, parent("gateways", "good"))
	s.address("10.0.0.9", "IPv4", "me", parent("gateways", "mine"))

	s.repairOnce()
	// An address without a service may belong to a write in progress.
	want := map[string]string{
		"10.0.0.1": "services ns/good", "10.0.0.2": "services ns/lost", "fd00::2": "services ns/lost",
		"10.0.0.3": "services ns/gone", "10.0.0.4": "services ns/unlabelled", "10.0.0.5": "services ns/strange",
		"10.0.0.6": "services ns/gone", "10.0.0.7": "services ns/good", "10.0.0.8": "gateways ns/good", "10.0.0.9": "gateways ns/mine",
	}
	if got := s.allocated(); !maps.Equal(got, want) {
		t.Errorf("within the grace: got %v\nwant %v", got, want)
	}
	c.clock.Step(grace + time.Second)
	s.repairOnce()
	want["10.0.0.3"] = "services ns/robbed"
	for _, name := range []string{"10.0.0.6", "10.0.0.7", "10.0.0.8"} {
		delete(want, name)
	}
	if got := s.allocated(); !maps.Equal(got, want) {
		t.Errorf("after it: got %v\nwant %v", got, want)
	}
	obj, err := s.Get(t.Context(), ipAddresses, "", "10.0.0.4")
	if err != nil || !inOrder(obj.(*networkingv1.IPAddress), service("unlabelled"), addr("10.0.0.4")) {
		t.Errorf("labels: %v, %v", obj, err)
	}
	events := map[string]int{
		"ClusterIPNotAllocated lost": 2, "ClusterIPOutOfRange outside": 1, "ClusterIPNotValid nonsense": 1,
		"ClusterIPNotAllocated robbed": 1, "ClusterIPNotAllocated strange": 1, "ClusterIPAlreadyAllocated double": 1,
		"IPAddressNotAllocated 10.0.0.6": 1, "IPAddressNotAllocated 10.0.0.7": 1, "IPAddressNotAllocated 10.0.0.8": 1,
	}
	if got := s.reasons(); !maps.Equal(got, events) {
		t.Errorf("events: got %v\nwant %v", got, events)
	}
}

func TestRepairPorts(t *testing.T) {
	s := newCluster(t).server(t, 1, 30000, 32767)
	s.ports.Metrics = NewMetrics(prometheus.NewRegistry())
	s.repairOnce()
	if got := s.allocatedPorts(); len(got) > 0 {
		t.Errorf("at first: %v", got)
	}
	health := withPorts(service("a"), 30001, 30001, 30002)
	health.Spec.HealthCheckNodePort = 30003
	s.put(health)
	s.put(withPorts(service("b"), 30002, 29000))
	if _, err := s.ports.Allocate(t.Context(), service("lost"), 30009, false); err != nil {
		t.Fatal(err)
	}
	for pass := 1; pass <= passes; pass++ {
		s.repairOnce()
		want := []int32{30001, 30002, 30003, 30009}
		if pass == passes {
			want = want[:3]
		}
		if got := s.allocatedPorts(); !slices.Equal(got, want) {
			t.Errorf("after pass %d: %v, want %v", pass, got, want)
		}
	}
	events := map[string]int{"PortNotAllocated a": 3, "PortAlreadyAllocated b": 1, "PortOutOfRange b": 1}
	if got := s.reasons(); !maps.Equal(got, events) {
		t.Errorf("events: got %v\nwant %v", got, events)
	}
	// What is not repaired is found each time.
	for fault, times := range map[string]float64{"repair": 3, "duplicate": 3, "outOfRange": 3, "leak": 1} {
		if got := testutil.ToFloat64(s.ports.Metrics.portFaults.WithLabelValues(fault)); got != times {
			t.Errorf("%s is counted %v times, want %v", fault, got, times)
		}
	}
}

// TestRepairOfPortInUse checks a port that is found without a service now and then, because it is allocated again and
// again.
func TestRepairOfPortInUse(t *testing.T) {
	s := newCluster(t).server(t, 1, 30000, 32767)
	if _, err := s.ports.Allocate(t.Context(), service("a"), 30009, false); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for range passes - 1 {
			s.repairOnce()
		}
		if !slices.Contains(s.allocatedPorts(), 30009) {
			t.Fatal("given back")
		}
		s.put(withPorts(service("a"), 30009))
		s.repairOnce()
		if err := s.byGR[services].DeleteObject(t.Context(), request.Named("ns", "a"), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.ports.Allocate(t.Context(), service("a"), 30009, false); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAbandoned checks that the only server on an etcd recognizes leftovers of its predecessor.
func TestAbandoned(t *testing.T) {
	c := newCluster(t)
	s := c.server(t, 1, 30000, 32767)
	s.cidr("kubernetes", "10.0.0.0/24")
	take := func(address string, port int32) {
		t.Helper()
		if _, err := s.addresses.Allocate(t.Context(), service("a"), corev1.IPv4Protocol, addr(address), false); err != nil {
			t.Fatal(err)
		}
		if _, err := s.ports.Allocate(t.Context(), service("a"), port, false); err != nil {
			t.Fatal(err)
		}
	}
	take("10.0.0.1", 30001)
	var err error
	s = c.server(t, 1, 30000, 32767) // after a crash
	if s.repair.Abandoned, err = c.db.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.repairOnce()
	if a, p := s.allocated(), s.allocatedPorts(); len(a) > 0 || len(p) > 0 {
		t.Errorf("left behind: %v, %v", a, p)
	}
	take("10.0.0.1", 30001)
	s.repairOnce()
	if a, p := s.allocated(), s.allocatedPorts(); len(a) != 1 || len(p) != 1 {
		t.Errorf("taken from under a write: %v, %v", a, p)
	}
}

// TestRepairRun checks that Run repairs at once and periodically, until ctx ends.
func TestRepairRun(t *testing.T) {
	c := newCluster(t)
	s := c.server(t, 1, 30000, 32767)
	looks, pauses := make(chan struct{}), pauses{c.clock, make(chan time.Duration), make(chan time.Time)}
	r := NewRepair(NewAddresses(looked{s, looks}, nil, nil, c.clock), s.ports, pauses, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	<-looks
	for range 2 {
		if d := <-pauses.asked; d != 3*time.Minute {
			t.Errorf("pauses %s", d)
		}
		pauses.over <- time.Time{}
		<-looks
	}
	<-pauses.asked
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// pauses is a clock whose pauses the test ends.
type pauses struct {
	clock.Clock
	asked chan time.Duration
	over  chan time.Time
}

func (p pauses) After(d time.Duration) <-chan time.Time {
	p.asked <- d
	return p.over
}

// looked reports when the addresses are listed.
type looked struct {
	*server
	looks chan struct{}
}

func (l looked) List(ctx context.Context, gr schema.GroupResource, namespace string) ([]engine.Object, error) {
	if gr == ipAddresses {
		l.looks <- struct{}{}
	}
	return l.server.List(ctx, gr, namespace)
}
