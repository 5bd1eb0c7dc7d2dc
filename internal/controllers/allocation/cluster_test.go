package allocation

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/api/builtin/core"
	"github.com/kanzen-io/kanzen/internal/api/builtin/networking"
	"github.com/kanzen-io/kanzen/internal/api/openapi"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess/inprocesstest"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/etcd"
)

// cluster is one etcd and the servers on it.
type cluster struct {
	db    *etcd.DB
	clock *clocktesting.FakeClock
	uids  atomic.Int64
	ctx   context.Context //nolint:containedctx // of the stores, which outlive the test's own
	wait  sync.WaitGroup
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	db, err := etcd.OpenEmbedded(t.Context(), etcd.Embedded{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{db: db, clock: clocktesting.NewFakeClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))}
	ctx, cancel := context.WithCancel(context.Background())
	c.ctx = ctx
	t.Cleanup(func() {
		cancel()
		c.wait.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// server is the part of a server that services need: the engine with the relevant kinds, and the allocators.
type server struct {
	t         testing.TB
	store     *store.Cluster
	byGR      map[schema.GroupResource]*engine.Endpoint
	client    *inprocess.Client
	addresses *Addresses
	ports     *NodePorts
	repair    *Repair
}

// random returns a source with the same numbers in every run.
func random(seed uint64) Random {
	r, mu := rand.New(rand.NewPCG(seed, 0)), sync.Mutex{}
	return func(n uint64) uint64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Uint64N(n)
	}
}

func (c *cluster) server(t testing.TB, seed uint64, first, last int) *server {
	t.Helper()
	s := &server{t: t, byGR: map[schema.GroupResource]*engine.Endpoint{}}
	s.client = inprocesstest.Client(t.Context(), "test", func(resource string) http.Handler { return s.byGR[schema.GroupResource{Resource: resource}] })
	s.store = store.NewCluster(c.db, store.Options{Prefix: "/registry/"})
	c.wait.Add(1)
	go func() { defer c.wait.Done(); _ = s.store.Run(c.ctx) }()
	s.addresses = NewAddresses(s, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, random(seed), c.clock)
	s.ports = NewNodePorts(s.store, s, first, last, random(seed+1))
	s.repair = NewRepair(s.addresses, s.ports, c.clock, slog.New(slog.DiscardHandler))
	e := engine.New(engine.Config{
		Store: s.store, Admit: admission.Chain{}, Types: openapi.NewTypeConverter(),
		Clock:  fakeTicker{c.clock},
		NewUID: func() string { return fmt.Sprintf("uid-%d", c.uids.Add(1)) },
	})
	resources := append(networking.Resources(networking.Deps{}), core.Resources(core.Deps{Now: c.clock.Now, Objects: s, Addresses: s.addresses, NodePorts: s.ports})...)
	for _, r := range resources {
		eps, err := e.Endpoints(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, ep := range eps {
			s.byGR[ep.GVR.GroupResource()] = ep
		}
	}
	return s
}

// fakeTicker makes a clock.WithTicker of the fake clock, for the engine's type.
type fakeTicker struct{ *clocktesting.FakeClock }

var _ clock.WithTicker = fakeTicker{}

func (s *server) Get(ctx context.Context, gr schema.GroupResource, namespace, name string) (engine.Object, error) {
	return s.byGR[gr].GetObject(ctx, namespace, name)
}

func (s *server) List(ctx context.Context, gr schema.GroupResource, namespace string) ([]engine.Object, error) {
	return s.byGR[gr].ListObjects(ctx, namespace)
}

func (s *server) Create(ctx context.Context, gr schema.GroupResource, obj engine.Object) (engine.Object, error) {
	return s.byGR[gr].CreateObject(ctx, obj)
}

func (s *server) Update(ctx context.Context, gr schema.GroupResource, w request.Which, dryRun bool, change func(obj engine.Object) error) (engine.Object, error) {
	return s.byGR[gr].UpdateObject(ctx, w, dryRun, change)
}

func (s *server) Delete(ctx context.Context, gr schema.GroupResource, w request.Which, options *metav1.DeleteOptions) error {
	return s.byGR[gr].DeleteObject(ctx, w, options)
}

func (s *server) Endpoint(gr schema.GroupResource) (*engine.Endpoint, error) { return s.byGR[gr], nil }

func (s *server) View(gr schema.GroupResource) (*store.View, error) { return s.byGR[gr].View(), nil }

// cidr creates a ServiceCIDR.
func (s *server) cidr(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	s.t.Helper()
	obj := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
	if _, err := s.Create(s.t.Context(), serviceCIDRs, obj); err != nil {
		s.t.Fatal(err)
	}
	return obj
}

// put stores a service without validation, as an older server might have.
func (s *server) put(svc *corev1.Service) *corev1.Service {
	s.t.Helper()
	if _, err := s.Create(s.t.Context(), services, svc); err != nil {
		s.t.Fatal(err)
	}
	return svc
}

// allocated returns the allocated addresses and their owners, by name.
func (s *server) allocated() map[string]string {
	s.t.Helper()
	list, err := s.List(s.t.Context(), ipAddresses, "")
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]string{}
	for _, obj := range list {
		a := obj.(*networkingv1.IPAddress)
		out[a.Name] = a.Spec.ParentRef.Resource + " " + a.Spec.ParentRef.Namespace + "/" + a.Spec.ParentRef.Name
	}
	return out
}

// allocatedPorts returns the ports that are stored as allocated.
func (s *server) allocatedPorts() []int32 {
	s.t.Helper()
	item, err := s.ports.view.Latest(s.t.Context(), portsKey)
	if err != nil {
		s.t.Fatal(err)
	}
	set, err := decodePorts(item.Value())
	if err != nil {
		s.t.Fatal(err)
	}
	var out []int32
	set.each(func(p int32) { out = append(out, p) })
	return out
}

// reasons counts the events about objects, by reason and name.
func (s *server) reasons() map[string]int {
	s.t.Helper()
	list, err := s.List(s.t.Context(), events, "")
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]int{}
	for _, obj := range list {
		e := obj.(*corev1.Event)
		out[e.Reason+" "+e.InvolvedObject.Name]++
	}
	return out
}

func service(name string, ips ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.ServiceSpec{ClusterIPs: ips}}
	if len(ips) > 0 {
		s.Spec.ClusterIP = ips[0]
	}
	return s
}

func withPorts(s *corev1.Service, ports ...int32) *corev1.Service {
	for _, p := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{NodePort: p, Protocol: corev1.ProtocolTCP})
	}
	return s
}

func addr(s string) netip.Addr {
	if s == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(s)
}
