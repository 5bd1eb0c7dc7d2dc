// Package modes builds the authorizers of a server, as named by --authorization-mode or the file of
// --authorization-config, and keeps those that depend on stored objects up to date.
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

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/access/authz/abac"
	"github.com/kanzen-io/kanzen/internal/access/authz/bootstrap"
	authzconfig "github.com/kanzen-io/kanzen/internal/access/authz/config"
	"github.com/kanzen-io/kanzen/internal/access/authz/node"
	"github.com/kanzen-io/kanzen/internal/access/authz/webhook"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/reload"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/wire/remote"
	"github.com/prometheus/client_golang/prometheus"
)

// Config is the input of New.
type Config struct {
	// Flags is the configuration given by flags, in the form of the file; File overrides it.
	Flags *apiserver.AuthorizationConfiguration
	File  string
	// PolicyFile holds the policies of the mode ABAC.
	PolicyFile string
	// Bootstrap is the policy that clusters start with, which has the rules of nodes.
	Bootstrap *bootstrap.Objects
	// Gates says which features are on.
	Gates features.Set
	// Server names this server in metrics.
	Server string
	// Follow delivers the objects on which RBAC and Node depend. Run calls it.
	Follow   Follow
	Dial     utilnet.DialFunc // for webhooks; nil: no proxy
	Registry prometheus.Registerer
	Clock    clock.WithTicker
	Guard    *guard.Guard
	Log      *slog.Logger
}

// Set is the authorizers in order. When a configuration file changes, its webhooks are replaced while the server runs.
// RBAC, Node and ABAC are created once, and a changed file must still name them.
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

// authorizers are the authorizers of one version of the configuration.
type authorizers struct {
	union   authz.Union
	rules   []authz.RuleResolver
	scopers []authz.Scoper
	opaque  []string         // the names of those that are no Scopers
	clients []*remote.Client // of webhooks
}

// New creates the authorizers named by flags or the file.
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

// lasting creates an authorizer that stays for the life of the server.
func (a *Set) lasting(kind string) (err error) {
	switch kind {
	case "Node":
		a.nodes, err = newNodeAuthorizer(node.NewMetrics(a.Registry, a.Clock), a.changes(), a.Bootstrap, a.Gates)
	case "ABAC":
		if a.abac, err = abac.ReadFile(a.PolicyFile); err != nil {
			err = fmt.Errorf("--authorization-policy-file: %w", err)
		}
	}
	if kind != string(apiserver.TypeWebhook) {
		a.needed = append(a.needed, kind)
	}
	return err
}

// make creates the authorizers of a configuration.
func (a *Set) make(c *apiserver.AuthorizationConfiguration) (*authorizers, error) {
	// The privileged group comes first, so that no mistake in later authorizers locks everyone out.
	out := &authorizers{union: authz.Union{{Name: "kubernetes.io/system-privileged-group", Authorizer: authz.Masters{}}}}
	add := func(each *apiserver.AuthorizerConfiguration, made authz.Authorizer) {
		out.union = append(out.union, authz.Named{Name: each.Name, Authorizer: a.metrics.Counted(string(each.Type), each.Name, made)})
		if r, ok := made.(authz.RuleResolver); ok {
			out.rules = append(out.rules, r)
		}
		if s, ok := made.(authz.Scoper); ok {
			out.scopers = append(out.scopers, s)
		} else {
			out.opaque = append(out.opaque, each.Name)
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
			made, err := a.webhook(each, out)
			switch {
			case err != nil && a.File == "":
				return nil, fmt.Errorf("--authorization-webhook-config-file, --authorization-webhook-version: %w", err)
			case err != nil:
				return nil, fmt.Errorf("authorizer %s: %w", each.Name, err)
			}
			add(each, made)
		default:
			return nil, fmt.Errorf("unknown authorization mode %s specified", each.Type)
		}
	}
	return out, nil
}

func (a *Set) webhook(c *apiserver.AuthorizerConfiguration, of *authorizers) (*webhook.Authorizer, error) {
	w := c.Webhook
	client, err := remote.FromKubeconfig(*w.ConnectionInfo.KubeConfigFile, w.Timeout.Duration, a.Dial)
	if err != nil {
		return nil, err
	}
	of.clients = append(of.clients, client)
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

// reload applies a changed file.
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
	a.changes().Tell()
	return nil
}

// FromFile reports whether a configuration file names the authorizers.
func (a *Set) FromFile() bool { return a.file != nil }

// Run keeps the authorizers up to date and watches the file until ctx ends.
func (a *Set) Run(ctx context.Context) {
	var wg sync.WaitGroup
	a.RBAC.begin(ctx, a.Follow, &wg)
	if a.nodes != nil {
		a.nodes.begin(ctx, a.Follow, &wg)
	}
	if a.file != nil {
		wg.Go(func() { a.Guard.Keep(ctx, "authorization configuration", a.file.Run) })
	}
	wg.Wait()
}

// Close closes the connections to webhooks.
func (a *Set) Close() error {
	for _, c := range a.current.Load().clients {
		c.Close()
	}
	return nil
}

// Authorize is part of authz.Authorizer.
func (a *Set) Authorize(ctx context.Context, at *authz.Attributes) (authz.Decision, string, error) {
	return a.current.Load().union.Authorize(ctx, at)
}

// Rules returns the authorizers that list what users may do, for SelfSubjectRulesReviews.
func (a *Set) Rules() []authz.RuleResolver { return a.current.Load().rules }

// Uses reports whether there is an authorizer of a type.
func (a *Set) Uses(kind string) bool { return slices.Contains(a.needed, kind) }
