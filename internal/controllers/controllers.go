// Package controllers holds the controllers that run inside the server, so
// that an API server by itself behaves as its users expect: a deleted
// namespace is emptied and goes away, every namespace has its default service
// account, quotas say what is used, the roles view, edit and admin gather what
// others offer them, and admission policies are told of what is wrong with their types.
//
// They watch views and act through the server's own chain as the service
// accounts that kube-controller-manager's controllers have: no sockets, same
// authorization, same audit.
package controllers

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/admission"
	"github.com/kanzen-io/kanzen/internal/catalog"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/guard"
)

// Config is what controllers work with.
type Config struct {
	// Transport makes requests to this server as a user.
	Transport func(u user.Info) http.RoundTripper
	// Endpoints are all that is served now.
	Endpoints func() []*engine.Endpoint
	// Remotes are the groups and versions of extension servers now.
	Remotes func() iter.Seq[*catalog.Remote]
	// Schema is the OpenAPI schema of a kind, without references; nil: it has none.
	Schema func(kind schema.GroupVersionKind) (*spec.Schema, error)
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
	run  func(ctx context.Context, c Config, client *client) error
}

// all controllers, by the names that kube-controller-manager gives them.
var all = []controller{
	{"namespace-controller", runNamespaces},
	{"serviceaccount-controller", runServiceAccounts},
	{"resourcequota-controller", runResourceQuotas},
	{"clusterrole-aggregation-controller", runAggregation},
	{"validatingadmissionpolicy-status-controller", runPolicyStatus},
}

// aliases are the short names that kube-controller-manager also takes.
var aliases = map[string]string{
	"namespace": "namespace-controller", "serviceaccount": "serviceaccount-controller",
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
			client := &client{rt: c.Transport(u), agent: "kanzen/" + ctl.name}
			c.Guard.Keep(ctx, ctl.name, func(ctx context.Context) {
				if err := ctl.run(ctx, c, client); err != nil && ctx.Err() == nil {
					c.Log.Error("controller ended", "controller", ctl.name, "error", err)
				}
			})
		}()
	}
	wg.Wait()
}

// accountOf is the service account that kube-controller-manager gives a
// controller; the bootstrap policy knows it by that name.
func accountOf(name string) string {
	if name == "serviceaccount-controller" {
		return "service-account-controller"
	}
	return name
}

// endpoint finds the one that serves a resource.
func endpoint(eps []*engine.Endpoint, group, resource string) *engine.Endpoint {
	for _, ep := range eps {
		if ep.GVR.Group == group && ep.GVR.Resource == resource {
			return ep
		}
	}
	return nil
}
