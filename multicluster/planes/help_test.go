package planes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kanzen-io/kanzen/multicluster/internal/testserver"
)

const widgets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {color: {type: string}}}
          status: {type: object, properties: {seen: {type: string}}}
`

const export = `apiVersion: planes.kanzen.io/v1
kind: Export
metadata: {name: widgets}
spec:
  resources:
  - {group: example.com, resource: widgets}
  consumers: {all: true}
  claims:
  - {resource: configmaps, verbs: [get, list, watch, create, update, patch, delete]}
  - {resource: events, verbs: [create, patch]}
  - {group: events.k8s.io, resource: events, verbs: [create, patch]}
`

const binding = `apiVersion: planes.kanzen.io/v1
kind: Binding
metadata: {name: widgets}
spec:
  export: {plane: vendor, name: widgets}
  accept:
  - {resource: configmaps, verbs: [get, list, watch, create, update, patch, delete]}
  - {resource: events, verbs: [create, patch]}
  - {group: events.k8s.io, resource: events, verbs: [create, patch]}
`

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	m.Run()
}

// vendor makes a plane that offers widgets.
func vendor(t *testing.T, s *testserver.Server) *rest.Config {
	t.Helper()
	config := s.Plane("vendor", "")
	testserver.Create(t, testserver.Client(t, config), widgets+"---\n"+export)
	return config
}

// consumer makes a plane that has bound them.
func consumer(t *testing.T, s *testserver.Server, name string) client.Client {
	t.Helper()
	c := testserver.Client(t, s.Plane(name, ""))
	testserver.Bind(t, c, binding)
	return c
}

func widget(t testing.TB, name, color string) *unstructured.Unstructured {
	t.Helper()
	return testserver.Object(t, fmt.Sprintf("{apiVersion: example.com/v1, kind: Widget, metadata: {name: %s, namespace: default}, spec: {color: %s}}", name, color))
}

func widgetList() *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetAPIVersion("example.com/v1")
	l.SetKind("WidgetList")
	return l
}

func create(t testing.TB, c client.Client, o client.Object) {
	t.Helper()
	testserver.Await(t, "a "+o.GetObjectKind().GroupVersionKind().Kind+" cannot be created", func(ctx context.Context) bool { return c.Create(ctx, o) == nil })
}

// engagements are those that a provider makes.
type engagements struct {
	mu  sync.Mutex
	all map[string][]context.Context // by names of planes; guarded by mu
}

// Engage is part of multicluster.Aware.
func (e *engagements) Engage(ctx context.Context, name multicluster.ClusterName, _ cluster.Cluster) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = map[string][]context.Context{}
	}
	e.all[name.String()] = append(e.all[name.String()], ctx)
	return nil
}

// is returns how often a plane was engaged, and whether it is.
func (e *engagements) is(name string) (times int, now bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.all[name]
	return len(all), len(all) > 0 && all[len(all)-1].Err() == nil
}

// becomes waits until a plane has been engaged so often, and is or is not.
func (e *engagements) becomes(t *testing.T, name string, times int, now bool) {
	t.Helper()
	testserver.Await(t, fmt.Sprintf("%s is not engaged %d times, and now %v", name, times, now), func(context.Context) bool {
		n, is := e.is(name)
		return n == times && is == now
	})
}

// provider is what both providers are.
type provider interface {
	multicluster.Provider
	multicluster.ProviderRunnable
	ClusterNames() []multicluster.ClusterName
}

// running starts a provider, which ends with the returned function or with the test.
func running(t *testing.T, p provider, aware multicluster.Aware) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Start(ctx, aware) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// managed starts a manager with a provider, after set has added controllers.
func managed(t *testing.T, config *rest.Config, p provider, set func(mcmanager.Manager) error) mcmanager.Manager {
	t.Helper()
	m, err := mcmanager.New(config, p, manager.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := set(m); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return m
}

// engagedCluster waits for a plane.
func engagedCluster(t *testing.T, p provider, name string) cluster.Cluster {
	t.Helper()
	var cl cluster.Cluster
	testserver.Await(t, name+" is not engaged", func(ctx context.Context) (is bool) {
		var err error
		cl, err = p.Get(ctx, multicluster.ClusterName(name))
		return err == nil
	})
	return cl
}

// gone waits until a plane is not found.
func gone(t *testing.T, p provider, name string) {
	t.Helper()
	testserver.Await(t, name+" is still there", func(ctx context.Context) bool {
		_, err := p.Get(ctx, multicluster.ClusterName(name))
		return errors.Is(err, multicluster.ErrClusterNotFound) && !slices.Contains(p.ClusterNames(), multicluster.ClusterName(name))
	})
}
