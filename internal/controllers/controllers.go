// Package controllers holds the controllers that run inside the server, so
// that an API server by itself behaves as its users expect: a deleted
// namespace is emptied and goes away, every namespace has its default service
// account, quotas say what is used, the roles view, edit and admin gather what
// others offer them, and admission policies are told of what is wrong with their types.
//
// They follow views and write through the in-process door as the service
// accounts that kube-controller-manager's controllers have: same authorization,
// same admission, same audit.
package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/admission"
	"github.com/kanzen-io/kanzen/internal/catalog"
	"github.com/kanzen-io/kanzen/internal/controllers/garbagecollector"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/guard"
	"github.com/kanzen-io/kanzen/internal/inprocess"
	"github.com/kanzen-io/kanzen/internal/queue"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Config is what controllers work with.
type Config struct {
	// Door is where controllers write, each as its service account.
	Door *inprocess.Door
	// Endpoints are all that is served now.
	Endpoints func() []*engine.Endpoint
	// Schema is the OpenAPI schema of a kind, without references; nil: it has none.
	Schema func(kind schema.GroupVersionKind) (*spec.Schema, error)
	// Store and Catalog are what is stored and served.
	Store   *store.Store
	Catalog *catalog.Live
	// Objects is how the usage of quotas looks things up, Marks where it says
	// that it counts.
	Objects admission.Objects
	Marks   Marks
	Clock   clock.WithTicker
	Guard   *guard.Guard
	Log     *slog.Logger
}

// controller is one of them: it runs until its context ends.
type controller struct {
	name string
	run  func(ctx context.Context, c Config, client *inprocess.Client)
}

// all controllers, by the names that kube-controller-manager gives them.
var all = []controller{
	{"namespace-controller", runNamespaces},
	{"garbage-collector-controller", runGarbageCollector},
	{"serviceaccount-controller", runServiceAccounts},
	{"resourcequota-controller", runResourceQuotas},
	{"clusterrole-aggregation-controller", runAggregation},
	{"validatingadmissionpolicy-status-controller", runPolicyStatus},
}

// aliases are the short names that kube-controller-manager also takes.
var aliases = map[string]string{
	"namespace": "namespace-controller", "garbagecollector": "garbage-collector-controller", "serviceaccount": "serviceaccount-controller",
	"resourcequota":                    "resourcequota-controller",
	"clusterrole-aggregation":          "clusterrole-aggregation-controller",
	"validatingadmissionpolicy-status": "validatingadmissionpolicy-status-controller",
}

// ValidNames reports names of --controllers that are no controller's.
func ValidNames(names []string) error {
	for _, n := range names {
		n = full(strings.TrimPrefix(n, "-"))
		if n == "*" || n == "" || slices.ContainsFunc(all, func(c controller) bool { return c.name == n }) {
			continue
		}
		return fmt.Errorf("there is no controller %q", n)
	}
	return nil
}

func full(name string) string {
	if n, ok := aliases[name]; ok {
		return n
	}
	return name
}

// enabled says whether names, as in --controllers, have a controller run.
func enabled(name string, names []string) bool {
	on := false
	for _, n := range names {
		switch {
		case n == "*":
			on = true
		case full(n) == name:
			return true
		case full(strings.TrimPrefix(n, "-")) == name:
			return false
		}
	}
	return on
}

// Run runs the controllers that names have run, until ctx ends.
func Run(ctx context.Context, c Config, names []string) {
	var wg sync.WaitGroup
	for _, ctl := range all {
		if !enabled(ctl.name, names) {
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			u := &user.DefaultInfo{
				Name:   "system:serviceaccount:kube-system:" + accountOf(ctl.name),
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", user.AllAuthenticated},
			}
			client := c.Door.As(u, "kanzen/"+ctl.name)
			c.Guard.Keep(ctx, ctl.name, func(ctx context.Context) { ctl.run(ctx, c, client) })
		}()
	}
	wg.Wait()
}

// accountOf is the service account that kube-controller-manager gives a
// controller; the bootstrap policy knows it by that name.
func accountOf(name string) string {
	switch name {
	case "serviceaccount-controller":
		return "service-account-controller"
	case "garbage-collector-controller":
		return "generic-garbage-collector"
	}
	return name
}

func runGarbageCollector(ctx context.Context, c Config, cl *inprocess.Client) {
	garbagecollector.Run(ctx, garbagecollector.Config{Store: c.Store, Catalog: c.Catalog, Client: cl, Clock: c.Clock, Guard: c.Guard, Log: c.Log})
}

// endpoint finds the one that serves a resource.
func (c *Config) endpoint(gr schema.GroupResource) *engine.Endpoint {
	for _, ep := range c.Endpoints() {
		if ep.GVR.GroupResource() == gr {
			return ep
		}
	}
	return nil
}

// source is what a controller follows until its context ends; it puts names into
// the controller's queue.
type source func(ctx context.Context, q *queue.Queue)

// follow is a source: names returns what to look at because of a change ("":
// nothing).
func follow[T engine.Object](x *store.Index[T], name func(c store.Change[T]) (string, bool)) source {
	return func(ctx context.Context, q *queue.Queue) {
		x.Follow(ctx, func(c store.Change[T]) {
			if n, ok := name(c); ok {
				q.Add(n)
			}
		}, nil)
	}
}

// work follows sources and looks at what they name until ctx ends.
func (c *Config) work(ctx context.Context, name string, look func(ctx context.Context, name string) error, sources ...source) {
	q := queue.New(name, c.Clock, c.Guard, c.Log)
	var following sync.WaitGroup
	for _, s := range sources {
		following.Go(func() { s(ctx, q) })
	}
	q.Run(ctx, look)
	following.Wait()
}

// target is an object, or with name "" all objects of a namespace.
func target(ep *engine.Endpoint, namespace, name, subresource string) inprocess.Target {
	return inprocess.Target{Resource: ep.GVR, Namespace: namespace, Name: name, Subresource: subresource}
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
