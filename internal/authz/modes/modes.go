// Package modes puts the authorizers of a server together, as
// --authorization-mode or the file of --authorization-config names them, and
// feeds those that judge by stored objects.
package modes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/authz/abac"
	authzconfig "github.com/kanzen-io/kanzen/internal/authz/config"
	"github.com/kanzen-io/kanzen/internal/authz/node"
	"github.com/kanzen-io/kanzen/internal/authz/webhook"
	"github.com/kanzen-io/kanzen/internal/guard"
	"github.com/kanzen-io/kanzen/internal/reload"
	"github.com/kanzen-io/kanzen/internal/remote"
	"github.com/prometheus/client_golang/prometheus"
)

// Config is what the authorizers are made of.
type Config struct {
	// Flags is what the flags say, in the form of the file; File takes its place.
	Flags *apiserver.AuthorizationConfiguration
	File  string
	// PolicyFile has the policies of the mode ABAC.
	PolicyFile string
	// Server names this server in metrics.
	Server string
	// Follow tells of the objects that RBAC and Node judge by. It is called by Run.
	Follow   Follow
	Dial     utilnet.DialFunc // to webhooks; nil: plainly
	Registry prometheus.Registerer
	Clock    clock.WithTicker
	Guard    *guard.Guard
	Log      *slog.Logger
}

// Set is the authorizers in their order. Those of a configuration file change
// with it while the server runs; RBAC, Node and ABAC are made once and stay, and
// the file must go on naming them.
type Set struct {
	Config
	RBAC    *RBAC
	nodes   *nodeAuthorizer // nil without the mode Node
	abac    abac.Policies   // nil without the mode ABAC
	needed  []string        // types that a changed file must name
	current atomic.Pointer[authorizers]
	file    *reload.File // nil without a file

	metrics  *authz.Metrics
	webhooks *webhook.Metrics
}

// authorizers are those of one content of the configuration.
type authorizers struct {
	union authz.Union
	rules []authz.RuleResolver
}

// New makes the authorizers that flags or the file say.
func New(cfg Config) (*Set, error) {
	a := &Set{Config: cfg, RBAC: newRBAC(), metrics: authz.NewMetrics(cfg.Registry), webhooks: webhook.NewMetrics(cfg.Registry)}
	c := cfg.Flags
	if cfg.File != "" {
		a.file = &reload.File{Path: cfg.File, Take: a.reload, Clock: cfg.Clock, Log: cfg.Log,
			Metrics: reload.NewMetrics(cfg.Registry, "authorization", cfg.Server)}
		data, err := a.file.Read()
		if err == nil {
			c, err = authzconfig.Load(data)
		}
		if err != nil {
			return nil, fmt.Errorf("--authorization-config: %w", err)
		}
	}
	for _, each := range c.Authorizers {
		if err := a.lasting(string(each.Type)); err != nil {
			return nil, err
		}
	}
	made, err := a.make(c)
	if err != nil {
		return nil, err
	}
	a.current.Store(made)
	return a, nil
}

// lasting makes an authorizer that stays as long as the server does.
func (a *Set) lasting(kind string) (err error) {
	switch kind {
	case "Node":
		a.nodes, err = newNodeAuthorizer(node.NewMetrics(a.Registry, a.Clock))
	case "ABAC":
		a.abac, err = abac.ReadFile(a.PolicyFile)
	}
	if kind != string(apiserver.TypeWebhook) {
		a.needed = append(a.needed, kind)
	}
	return err
}

// make puts together the authorizers of a configuration.
func (a *Set) make(c *apiserver.AuthorizationConfiguration) (*authorizers, error) {
	// The privileged group first, so that no mistake in what follows locks
	// everyone out.
	out := &authorizers{union: authz.Union{authz.Masters{}}}
	add := func(each *apiserver.AuthorizerConfiguration, made authz.Authorizer) {
		out.union = append(out.union, a.metrics.Counted(string(each.Type), each.Name, made))
		if r, ok := made.(authz.RuleResolver); ok {
			out.rules = append(out.rules, r)
		}
	}
	late := func(kind apiserver.AuthorizerType) error {
		return fmt.Errorf("authorizer type %s is not allowed if it was not enabled at initial server startup", kind)
	}
	for i := range c.Authorizers {
		each := &c.Authorizers[i]
		if each.Type != apiserver.TypeWebhook && !slices.Contains(a.needed, string(each.Type)) &&
			slices.Contains([]string{"Node", "RBAC", "ABAC"}, string(each.Type)) {
			return nil, late(each.Type)
		}
		switch each.Type {
		case "RBAC":
			add(each, a.RBAC)
		case "Node":
			add(each, a.nodes)
		case "ABAC":
			add(each, a.abac)
		case "AlwaysAllow":
			add(each, authz.AlwaysAllow{})
		case "AlwaysDeny":
			add(each, authz.AlwaysDeny{})
		case apiserver.TypeWebhook:
			made, err := a.webhook(each)
			if err != nil {
				return nil, fmt.Errorf("authorizer %s: %w", each.Name, err)
			}
			add(each, made)
		default:
			return nil, fmt.Errorf("unknown authorization mode %s specified", each.Type)
		}
	}
	return out, nil
}

func (a *Set) webhook(c *apiserver.AuthorizerConfiguration) (*webhook.Authorizer, error) {
	w := c.Webhook
	client, err := remote.FromKubeconfig(*w.ConnectionInfo.KubeConfigFile, w.Timeout.Duration, a.Dial)
	if err != nil {
		return nil, err
	}
	match, errs := webhook.NewMatcher(authzconfig.Conditions(w), field.NewPath("matchConditions"))
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	out := webhook.Config{
		Name: c.Name, Client: client, Version: w.SubjectAccessReviewVersion, OnError: authz.Deny, Match: match,
		Retry: remote.DefaultRetry(a.Clock), Clock: a.Clock, Metrics: a.webhooks, Log: a.Log,
	}
	if w.FailurePolicy == apiserver.FailurePolicyNoOpinion {
		out.OnError = authz.NoOpinion
	}
	if w.CacheAuthorizedRequests {
		out.AuthorizedTTL = w.AuthorizedTTL.Duration
	}
	if w.CacheUnauthorizedRequests {
		out.UnauthorizedTTL = w.UnauthorizedTTL.Duration
	}
	return webhook.New(out)
}

// reload puts a changed file in force.
func (a *Set) reload(_ context.Context, data []byte) error {
	c, err := authzconfig.Load(data)
	if err != nil {
		return err
	}
	var missing []error
	for _, kind := range a.needed {
		if !slices.ContainsFunc(c.Authorizers, func(each apiserver.AuthorizerConfiguration) bool { return string(each.Type) == kind }) {
			missing = append(missing, fmt.Errorf("missing required type: %s", kind))
		}
	}
	if len(missing) > 0 {
		return errors.Join(missing...)
	}
	made, err := a.make(c)
	if err != nil {
		return err
	}
	a.current.Store(made)
	return nil
}

// FromFile says that a configuration file names the authorizers.
func (a *Set) FromFile() bool { return a.file != nil }

// Run feeds the authorizers and follows the file until ctx ends.
func (a *Set) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { a.RBAC.run(ctx, a.Follow) })
	if a.nodes != nil {
		wg.Go(func() { a.nodes.run(ctx, a.Follow) })
	}
	if a.file != nil {
		wg.Go(func() { a.Guard.Keep(ctx, "authorization configuration", a.file.Run) })
	}
	wg.Wait()
}

// Authorize is part of authz.Authorizer.
func (a *Set) Authorize(ctx context.Context, at *authz.Attributes) (authz.Decision, string, error) {
	return a.current.Load().union.Authorize(ctx, at)
}

// Rules resolve what users may do, for SelfSubjectRulesReviews.
func (a *Set) Rules() []authz.RuleResolver { return a.current.Load().rules }

// Uses says that there is an authorizer of a type.
func (a *Set) Uses(kind string) bool { return slices.Contains(a.needed, kind) }
