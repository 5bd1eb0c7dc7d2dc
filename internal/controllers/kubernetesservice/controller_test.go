//lint:file-ignore SA1019 Endpoints are what this package is about

package kubernetesservice

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

func TestServersComeAndGo(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	a, b := c.server("10.1.2.3"), c.server("10.1.2.14")
	a.Start(ctx)
	a.expect("not ready", "none")
	must(t, a.publish(ctx))
	a.expect("one", "10.1.2.3:6443")
	must(t, b.publish(ctx))
	a.expect("two", "10.1.2.14,10.1.2.3:6443")

	before := get[*corev1.Endpoints](a, a.Endpoints)
	slice := get[*discoveryv1.EndpointSlice](a, a.Slices)
	must(t, a.publish(ctx))
	must(t, b.publish(ctx))
	if rv := get[*corev1.Endpoints](a, a.Endpoints).ResourceVersion; rv != before.ResourceVersion {
		t.Error("the Endpoints were written although nothing changed")
	}
	if rv := get[*discoveryv1.EndpointSlice](a, a.Slices).ResourceVersion; rv != slice.ResourceVersion {
		t.Error("the EndpointSlice was written although nothing changed")
	}
	if l := before.Labels; len(l) != 1 || l[discoveryv1.LabelSkipMirror] != "true" {
		t.Errorf("labels %v", l)
	}
	if l := slice.Labels; len(l) != 1 || l[discoveryv1.LabelServiceName] != name || slice.AddressType != discoveryv1.AddressTypeIPv4 || !*slice.Endpoints[0].Conditions.Ready {
		t.Errorf("slice %v", slice)
	}

	must(t, a.withdraw(ctx))
	a.expect("one has left", "10.1.2.14:6443")
	// A server that restarts after a crash is not ready yet.
	must(t, a.publish(ctx))
	c.server("10.1.2.3").Start(ctx)
	a.expect("started again", "10.1.2.14:6443")
	must(t, b.withdraw(ctx))
	a.expect("both have left", ":")
	c.server("10.1.2.14").Start(ctx)
	a.expect("and one starts", ":")
}

// A server that was alone when it was killed keeps its endpoints: there is no other server.
func TestStartAlone(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	a := c.server("10.1.2.3")
	must(t, a.publish(ctx))
	again := c.server("10.1.2.3")
	again.Port = 7443
	again.Start(ctx)
	again.expect("started", "10.1.2.3:6443")
	must(t, again.publish(ctx))
	again.expect("ready", "10.1.2.3:7443")
	// If servers have different ports, the first one's port stays.
	other := c.server("10.1.2.4")
	must(t, other.publish(ctx))
	must(t, again.publish(ctx))
	other.expect("two", "10.1.2.3,10.1.2.4:7443")
	if text := again.log.String() + other.log.String(); text != "" {
		t.Error(text)
	}
}

// In any interleaving, running servers are listed and stopped ones are not.
func TestServersAtOnce(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	var servers []*server
	for _, ip := range []string{"10.1.2.1", "10.1.2.2", "10.1.2.3", "10.1.2.4", "10.1.2.5"} {
		servers = append(servers, c.server(ip))
	}
	all := func(servers []*server, f func(s *server) error) {
		t.Helper()
		var wg sync.WaitGroup
		for _, s := range servers {
			wg.Go(func() {
				if err := f(s); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	for range 10 {
		all(servers, func(s *server) error { return s.publish(ctx) })
		servers[0].expect("all", "10.1.2.1,10.1.2.2,10.1.2.3,10.1.2.4,10.1.2.5:6443")
		all(servers[1:], func(s *server) error { return s.withdraw(ctx) })
		servers[0].expect("one", "10.1.2.1:6443")
		must(t, servers[0].Endpoints.DeleteObject(ctx, request.Named(metav1.NamespaceDefault, name), nil))
		must(t, servers[0].Slices.DeleteObject(ctx, request.Named(metav1.NamespaceDefault, name), nil))
	}
}

// Changes by other clients are reverted.
func TestRepair(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	s := c.server("10.1.2.3")
	must(t, s.publish(ctx))
	address := []corev1.EndpointAddress{{IP: "10.9.9.9"}}
	for what, edit := range map[string]func(e *corev1.Endpoints){
		"label":       func(e *corev1.Endpoints) { e.Labels = nil },
		"address":     func(e *corev1.Endpoints) { e.Subsets[0].Addresses = address },
		"not ready":   func(e *corev1.Endpoints) { e.Subsets[0].NotReadyAddresses = address },
		"two subsets": func(e *corev1.Endpoints) { e.Subsets = append(e.Subsets, corev1.EndpointSubset{Addresses: address}) },
		"port":        func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].Port = 1 },
		"empty":       func(e *corev1.Endpoints) { e.Subsets = nil },
	} {
		change(s, s.Endpoints, edit)
		must(t, s.publish(ctx))
		s.expect(what, "10.1.2.3:6443")
		if e := get[*corev1.Endpoints](s, s.Endpoints); e.Labels[discoveryv1.LabelSkipMirror] != "true" || e.Subsets[0].NotReadyAddresses != nil {
			t.Errorf("%s: %v", what, e)
		}
	}
	change(s, s.Slices, func(e *discoveryv1.EndpointSlice) { e.Endpoints, e.Ports, e.Labels = nil, nil, nil })
	must(t, s.publish(ctx))
	s.expect("slice", "10.1.2.3:6443")
	if l := get[*discoveryv1.EndpointSlice](s, s.Slices).Labels; l[discoveryv1.LabelServiceName] != name {
		t.Errorf("labels of the slice: %v", l)
	}
}

// The address type of a slice is immutable: the slice is replaced.
func TestAddressType(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	old, s := c.server("10.1.2.3"), c.server("fd00::3")
	must(t, old.publish(ctx))
	must(t, old.withdraw(ctx))
	was := get[*discoveryv1.EndpointSlice](s, s.Slices)
	must(t, s.publish(ctx))
	s.expect("IPv6", "fd00::3:6443")
	if is := get[*discoveryv1.EndpointSlice](s, s.Slices); is.AddressType != discoveryv1.AddressTypeIPv6 || is.UID == was.UID {
		t.Errorf("%s is %s", is.UID, is.AddressType)
	}
}

func TestService(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	s := c.server("10.1.2.3")
	s.Roster = nil
	s.Start(ctx)
	want := func(kind corev1.ServiceType, nodePort int32) {
		t.Helper()
		svc := get[*corev1.Service](s, s.Services)
		if p := svc.Spec.Ports[0]; svc.Spec.Type != kind || p.NodePort != nodePort || p.Port != 443 || p.TargetPort.IntValue() != 6443 || p.Name != "https" {
			t.Errorf("%+v", svc.Spec)
		}
		if svc.Spec.ClusterIP != "10.0.0.1" || svc.Labels["component"] != "apiserver" || svc.Labels["provider"] != "kubernetes" {
			t.Errorf("%+v", svc)
		}
	}
	want(corev1.ServiceTypeClusterIP, 0)
	s.NodePort = 30443
	must(t, s.publish(ctx))
	want(corev1.ServiceTypeClusterIP, 0) // an existing one is kept
	must(t, s.Services.DeleteObject(ctx, request.Named(metav1.NamespaceDefault, name), nil))
	must(t, s.publish(ctx))
	want(corev1.ServiceTypeNodePort, 30443)
	s.expect("without a roster", "none")
}

// addresses sends the addresses in the Endpoints after each change.
func (s *server) addresses(ctx context.Context) <-chan string {
	out := make(chan string, 100)
	go func() {
		defer close(out)
		engine.IndexOf[*corev1.Endpoints](s.Endpoints).Follow(ctx, func(c store.Change[*corev1.Endpoints]) {
			if c.Now != nil {
				out <- listed(c.Now)
			}
		}, nil)
	}()
	return out
}

func TestRun(t *testing.T) {
	c := newCluster(t)
	s, other := c.server("10.1.2.3"), c.server("10.1.2.4")
	following, stop := context.WithCancel(t.Context())
	lists := s.addresses(following)
	defer func() {
		stop()
		for range lists { // until it is closed
		}
	}()
	expect := func(what, want string) {
		t.Helper()
		if got := <-lists; got != want {
			t.Fatalf("%s: %s, want %s", what, got, want)
		}
	}
	var ready atomic.Bool
	s.Ready = func(context.Context) error {
		if ready.Load() {
			return nil
		}
		return errors.New("not ready")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	waits := func() {
		for !s.clock.HasWaiters() {
			runtime.Gosched()
		}
	}
	waits()
	s.clock.Step(readyInterval)
	waits()
	if got := s.lists(); got != "none" {
		t.Errorf("not ready, and there are endpoints: %s", got)
	}
	ready.Store(true)
	s.clock.Step(readyInterval)
	expect("ready", "10.1.2.3:6443")
	must(t, other.publish(t.Context()))
	expect("two", "10.1.2.3,10.1.2.4:6443")

	// The controller notices an expired lease without waiting for the next tick.
	_, err := c.db.Client.Delete(t.Context(), "/registry/masterleases/10.1.2.4")
	must(t, err)
	expect("one is gone", "10.1.2.3:6443")
	for len(get[*discoveryv1.EndpointSlice](s, s.Slices).Endpoints) != 1 {
		runtime.Gosched()
	}
	// It notices everything else at the next tick.
	must(t, s.Endpoints.DeleteObject(t.Context(), request.Named(metav1.NamespaceDefault, name), nil))
	s.clock.Step(interval)
	expect("interval", "10.1.2.3:6443")
	// It restores its own lease at once.
	_, err = c.db.Client.Delete(t.Context(), "/registry/masterleases/10.1.2.3")
	must(t, err)
	for there := int64(0); there == 0; runtime.Gosched() {
		r, err := c.db.Client.Get(t.Context(), "/registry/masterleases/10.1.2.3")
		must(t, err)
		there = r.Count
	}
	cancel()
	expect("the end", ":")
	<-done
	if text := s.log.String(); text != "" {
		t.Error(text)
	}
}

// failing is a roster that returns errors.
type failing struct{ left, joined atomic.Int32 }

func (f *failing) Join(context.Context) error  { f.joined.Add(1); return errors.New("no etcd") }
func (f *failing) Leave(context.Context) error { f.left.Add(1); return errors.New("no etcd") }
func (f *failing) Addresses(context.Context, []string) ([]string, error) {
	return nil, errors.New("no etcd")
}
func (f *failing) Follow(ctx context.Context, _ func()) { <-ctx.Done() }

// Errors are logged and the attempt repeated; leaving is attempted once.
func TestFailures(t *testing.T) {
	s, roster := newCluster(t).server("10.1.2.3"), &failing{}
	s.Roster = roster
	s.Start(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	for round := int32(1); round <= 3; round++ {
		for roster.joined.Load() < round || !s.clock.HasWaiters() {
			runtime.Gosched()
		}
		s.clock.Step(interval)
	}
	cancel()
	<-done
	if text := s.log.String(); strings.Count(text, `msg="could not keep the kubernetes service"`) < 3 || strings.Count(text, "could not take") != 2 || roster.left.Load() != 2 {
		t.Errorf("left %d times\n%s", roster.left.Load(), text)
	}
	s.expect("endpoints", "none")
}

// slow is a roster that responds slowly.
type slow struct {
	failing
	begun, answer chan struct{}
}

func (s *slow) Join(ctx context.Context) error {
	s.begun <- struct{}{}
	<-s.answer
	return errors.Join(ctx.Err(), s.failing.Join(ctx))
}

// An attempt in progress at shutdown is finished, and only Leave follows.
func TestEndsInTheMiddle(t *testing.T) {
	for range 10 {
		s, roster := newCluster(t).server("10.1.2.3"), &slow{begun: make(chan struct{}, 1), answer: make(chan struct{})}
		s.Roster = roster
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		<-roster.begun
		s.clock.Step(2 * interval) // a tick is pending now
		cancel()
		close(roster.answer)
		<-done
		if j, l := roster.joined.Load(), roster.left.Load(); j != 1 || l != 1 || strings.Contains(s.log.String(), "canceled") {
			t.Errorf("joined %d times, left %d times\n%s", j, l, s.log.String())
		}
	}
}
