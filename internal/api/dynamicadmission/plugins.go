// Package dynamicadmission makes the admission plugins that objects of the API configure, webhooks and policies, and that manifests in
// directories may configure besides.
package dynamicadmission

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/manifest"
	"github.com/kanzen-io/kanzen/internal/engine/admission/measure"
	"github.com/kanzen-io/kanzen/internal/engine/admission/policy"
	"github.com/kanzen-io/kanzen/internal/engine/admission/webhook"
	"github.com/kanzen-io/kanzen/internal/object/cel"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// Config is what the plugins are made of.
type Config struct {
	Objects    *catalog.Raw
	Authorizer authz.Authorizer
	Gates      features.Set
	// Enabled says which plugins are, and Configurations has their configurations, both by name.
	Enabled        func(name string) bool
	Configurations map[string][]byte
	Compiler       *cel.Compiler
	Measures       *measure.Metrics
	// Clients makes those of the webhooks.
	Clients    func(webhook.Credentials) *webhook.Clients
	Guardrails *webhook.Guardrails
	// Rehearsal has webhooks called as for dry runs.
	Rehearsal bool
	// Server is this server's identity.
	Server   string
	Registry prometheus.Registerer
	Clock    clock.WithTicker
	Log      *slog.Logger
}

// Plugins are the enabled ones, by name, and the directories of manifests that they read and that somebody has to run.
type Plugins struct {
	Plugins     map[string]admission.Plugin
	Directories []*manifest.Directory
}

// New makes the plugins.
func New(ctx context.Context, c Config) (*Plugins, error) {
	p := &Plugins{Plugins: map[string]admission.Plugin{}}
	if err := c.webhooks(ctx, p); err != nil {
		return nil, err
	}
	return p, c.policies(ctx, p)
}

// webhooks makes the two plugins that call webhooks.
func (c *Config) webhooks(ctx context.Context, p *Plugins) error {
	w := webhook.Deps{
		Mutating: c.registered("mutatingwebhookconfigurations"), Validating: c.registered("validatingwebhookconfigurations"),
		Namespaces: c.Objects, Authorizer: c.Authorizer, Compiler: c.Compiler, Metrics: c.Measures,
		NewUID: func() types.UID { return types.UID(uuid.NewString()) },
		Clock:  c.Clock, Log: c.Log,
		Guardrails: c.Guardrails, Manifests: map[string]admission.View{}, NotReviews: c.Gates.Enabled(features.ExcludeAdmissionWebhookVirtualResources),
		Rehearsal: c.Rehearsal,
	}
	for name, make := range map[string]func(webhook.Deps) admission.Plugin{
		webhook.MutatingName: webhook.Mutating, webhook.ValidatingName: webhook.Validating,
	} {
		if !c.Enabled(name) {
			continue
		}
		credentials, dir, err := webhook.ReadConfig(c.Configurations[name])
		if err != nil {
			return fmt.Errorf("couldn't init admission plugin %q: %w", name, err)
		}
		manifests, err := c.manifests(ctx, p, name, dir, "webhook")
		if err != nil {
			return err
		}
		if manifests != nil {
			w.Manifests[name] = manifests.View(webhookKinds[name])
		}
		w.Clients = c.Clients(credentials)
		p.Plugins[name] = make(w)
	}
	return nil
}

// policies makes the two plugins that evaluate policies.
func (c *Config) policies(ctx context.Context, p *Plugins) error {
	d := policy.Deps{
		ValidatingPolicies: c.registered("validatingadmissionpolicies"), ValidatingBindings: c.registered("validatingadmissionpolicybindings"),
		MutatingPolicies: c.registered("mutatingadmissionpolicies"), MutatingBindings: c.registered("mutatingadmissionpolicybindings"),
		Params: catalog.Params{Raw: c.Objects}, Namespaces: c.Objects, Authorizer: c.Authorizer, Compiler: c.Compiler, Metrics: c.Measures, Log: c.Log,
		Manifests: map[string]*policy.Source{},
	}
	for name, make := range map[string]func(policy.Deps) admission.Plugin{
		policy.ValidatingName: policy.Validating, policy.MutatingName: policy.Mutating,
	} {
		if !c.Enabled(name) {
			continue
		}
		dir, err := policy.ReadConfig(name, c.Configurations[name])
		if err != nil {
			return fmt.Errorf("couldn't init admission plugin %q: %w", name, err)
		}
		manifests, err := c.manifests(ctx, p, name, dir, "policy")
		if err != nil {
			return err
		}
		if manifests != nil {
			d.Manifests[name] = &policy.Source{Policies: manifests.View(name), Bindings: manifests.View(name + "Binding")}
		}
		p.Plugins[name] = make(d)
	}
	return nil
}

// registered gives the stored objects of one resource that configures
// admission.
func (c *Config) registered(resource string) registered {
	return registered{c.Objects, schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: resource}}
}

type registered struct {
	objects *catalog.Raw
	gr      schema.GroupResource
}

// Changed returns the revision of the newest change.
func (r registered) Changed(ctx context.Context) (int64, error) {
	v, err := r.objects.View(r.gr)
	if err != nil {
		return 0, err
	}
	return v.Changed(ctx)
}

// Objects returns the objects in the order of their names.
func (r registered) Objects(ctx context.Context) ([]admission.Object, error) {
	return r.objects.SeenList(ctx, r.gr, "")
}
