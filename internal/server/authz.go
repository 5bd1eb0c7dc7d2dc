package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"

	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/authz/abac"
	authzconfig "github.com/kanzen-io/kanzen/internal/authz/config"
	"github.com/kanzen-io/kanzen/internal/authz/node"
	"github.com/kanzen-io/kanzen/internal/authz/webhook"
	"github.com/kanzen-io/kanzen/internal/egress"
	"github.com/kanzen-io/kanzen/internal/remote"
)

// authorization is the authorizers in their order. Those of a configuration
// file change with it while the server runs; RBAC, Node and ABAC are made once
// and stay, and the file must go on naming them.
type authorization struct {
	server  *Server
	rbac    *rbacAuthorizer
	nodes   *nodeAuthorizer // nil without the mode Node
	abac    abac.Policies   // nil without the mode ABAC
	needed  []string        // types that a changed file must name
	current atomic.Pointer[authorizers]
	file    *reloader // nil without a file

	metrics  *authz.Metrics
	webhooks *webhook.Metrics
}

// authorizers are those of one content of the configuration.
type authorizers struct {
	union authz.Union
	rules []authz.RuleResolver
}

// newAuthorization makes the authorizers that flags or the file say.
func (s *Server) newAuthorization() (*authorization, error) {
	r := s.metrics.Registry()
	a := &authorization{server: s, rbac: newRBAC(), metrics: authz.NewMetrics(r), webhooks: webhook.NewMetrics(r)}
	c := s.cfg.Authorization()
	if path := s.cfg.AuthorizationConfigFile; path != "" {
		a.file = &reloader{path: path, take: a.reload, clock: s.clock, log: s.log,
			metrics: newReloadMetrics(r, "authorization", identityName(&s.cfg))}
		data, err := a.file.read()
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
func (a *authorization) lasting(kind string) (err error) {
	switch kind {
	case "Node":
		a.nodes, err = newNodeAuthorizer(node.NewMetrics(a.server.metrics.Registry(), a.server.clock))
	case "ABAC":
		a.abac, err = abac.ReadFile(a.server.cfg.AuthorizationPolicyFile)
	}
	if kind != string(apiserver.TypeWebhook) {
		a.needed = append(a.needed, kind)
	}
	return err
}

// make puts together the authorizers of a configuration.
func (a *authorization) make(c *apiserver.AuthorizationConfiguration) (*authorizers, error) {
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
			add(each, a.rbac)
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

func (a *authorization) webhook(c *apiserver.AuthorizerConfiguration) (*webhook.Authorizer, error) {
	w := c.Webhook
	client, err := remote.FromKubeconfig(*w.ConnectionInfo.KubeConfigFile, w.Timeout.Duration, a.server.egress.Dial(egress.ControlPlane))
	if err != nil {
		return nil, err
	}
	match, errs := webhook.NewMatcher(authzconfig.Conditions(w), field.NewPath("matchConditions"))
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	out := webhook.Config{
		Name: c.Name, Client: client, Version: w.SubjectAccessReviewVersion, OnError: authz.Deny, Match: match,
		Retry: remote.DefaultRetry(a.server.clock), Clock: a.server.clock, Metrics: a.webhooks, Log: a.server.log,
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
func (a *authorization) reload(_ context.Context, data []byte) error {
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

// run feeds the authorizers and follows the file until ctx ends.
func (a *authorization) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { a.rbac.run(ctx, a.server.objects) })
	if a.nodes != nil {
		wg.Go(func() { a.nodes.run(ctx, a.server.objects) })
	}
	if a.file != nil {
		wg.Go(func() { a.server.guard.Keep(ctx, "authorization configuration", a.file.run) })
	}
	wg.Wait()
}

// Authorize is part of authz.Authorizer.
func (a *authorization) Authorize(ctx context.Context, at *authz.Attributes) (authz.Decision, string, error) {
	return a.current.Load().union.Authorize(ctx, at)
}

// rules resolve what users may do, for SelfSubjectRulesReviews.
func (a *authorization) rules() []authz.RuleResolver { return a.current.Load().rules }

// uses says that there is an authorizer of a type.
func (a *authorization) uses(kind string) bool { return slices.Contains(a.needed, kind) }
