//lint:file-ignore SA1019 Endpoints are what this package is about

package kubernetesservice

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/api/builtin/core"
	"github.com/kanzen-io/kanzen/internal/api/builtin/discovery"
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
	t    testing.TB
	db   *etcd.DB
	uids atomic.Int64
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	db, err := etcd.OpenEmbedded(t.Context(), etcd.Embedded{Dir: t.TempDir(), UnsafeNoFsync: true})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return &cluster{t: t, db: db}
}

// server is a Controller and its engine, with its own clock.
type server struct {
	*Controller
	t     testing.TB
	eng   *engine.Engine
	clock *clocktesting.FakeClock
	log   lockedLog
}

// server adds a server with an address, port 6443 and a lease.
func (c *cluster) server(address string) *server {
	c.t.Helper()
	s := &server{t: c.t, clock: clocktesting.NewFakeClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))}
	st := store.NewCluster(c.db, store.Options{Prefix: "/registry/"})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = st.Run(ctx) })
	c.t.Cleanup(func() { cancel(); running.Wait() })
	s.eng = engine.New(engine.Config{
		Store: st, Admit: admission.Chain{}, Types: openapi.NewTypeConverter(), Clock: clock.RealClock{},
		NewUID: func() string { return fmt.Sprintf("uid-%d", c.uids.Add(1)) },
	})
	endpoint := map[string]*engine.Endpoint{}
	for _, r := range append(core.Resources(core.Deps{Now: s.clock.Now, Objects: others{}, Addresses: allocator{}, NodePorts: ports{}}), discovery.Resources(discovery.Deps{})...) {
		eps, err := s.eng.Endpoints(r)
		must(c.t, err)
		endpoint[r.Plural] = eps[0]
	}
	client := inprocesstest.Client(ctx, "kube-apiserver", func(resource string) http.Handler { return endpoint[resource] })
	ip := net.ParseIP(address)
	leases, err := NewLeases(s.eng, ip)
	must(c.t, err)
	s.Controller = New(Config{
		Client: client, Services: endpoint["services"], Endpoints: endpoint["endpoints"], Slices: endpoint["endpointslices"],
		ClusterIP: net.ParseIP("10.0.0.1"), Address: ip, Port: 6443, Roster: leases,
		Ready: func(context.Context) error { return nil }, Clock: s.clock, Log: slog.New(slog.NewTextHandler(&s.log, nil)),
	})
	return s
}

// allocator and ports allocate whatever a service requests.
type allocator struct{}

func (allocator) Families() []corev1.IPFamily { return []corev1.IPFamily{corev1.IPv4Protocol} }

func (allocator) Allocate(_ context.Context, _ *corev1.Service, _ corev1.IPFamily, a netip.Addr, _ bool) (netip.Addr, error) {
	return a, nil
}

func (allocator) Release(context.Context, *corev1.Service, netip.Addr) error { return nil }

type ports struct{}

func (ports) Allocate(_ context.Context, _ *corev1.Service, p int32, _ bool) (int32, error) {
	return p, nil
}

func (ports) Release(context.Context, *corev1.Service, int32) error { return nil }

// others has no endpoints of deleted services.
type others struct{ core.Objects }

func (others) Get(_ context.Context, gr schema.GroupResource, _, name string) (engine.Object, error) {
	return nil, apierrors.NewNotFound(gr, name)
}

// lockedLog is the text of a log.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// get returns the object of an endpoint, or nil.
func get[T engine.Object](s *server, ep *engine.Endpoint) (obj T) {
	s.t.Helper()
	o, err := ep.GetObject(s.t.Context(), metav1.NamespaceDefault, name)
	if apierrors.IsNotFound(err) {
		return obj
	}
	must(s.t, err)
	return o.(T)
}

// change edits an object as an unrelated client would.
func change[T engine.Object](s *server, ep *engine.Endpoint, edit func(obj T)) {
	s.t.Helper()
	one := request.Named(metav1.NamespaceDefault, name)
	_, err := inprocess.Edit(s.t.Context(), s.Client.Managing("somebody"), inprocess.Target{Resource: ep.GVR}, one, func(o T) error { edit(o); return nil })
	must(s.t, err)
}

// lists returns the endpoints as "address,address:port", and fails the test if the slice differs.
func (s *server) lists() string {
	s.t.Helper()
	e, slice := get[*corev1.Endpoints](s, s.Endpoints), get[*discoveryv1.EndpointSlice](s, s.Slices)
	if e == nil {
		if slice != nil {
			s.t.Errorf("a slice without endpoints: %v", slice)
		}
		return "none"
	}
	out := listed(e)
	var addresses []string
	for _, a := range slice.Endpoints {
		addresses = append(addresses, a.Addresses...)
	}
	also := strings.Join(addresses, ",") + ":"
	for _, p := range slice.Ports {
		also += fmt.Sprint(*p.Port)
	}
	if also != out {
		s.t.Errorf("endpoints %s, and in the slice %s", out, also)
	}
	return out
}

func listed(e *corev1.Endpoints) string {
	var addresses []string
	port := ""
	for _, s := range e.Subsets {
		for _, a := range s.Addresses {
			addresses = append(addresses, a.IP)
		}
		for _, p := range s.Ports {
			port += fmt.Sprint(p.Port)
		}
	}
	return strings.Join(addresses, ",") + ":" + port
}

func (s *server) expect(what, want string) {
	s.t.Helper()
	if got := s.lists(); got != want {
		s.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
