package server

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/measure"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin"
	"github.com/kanzen-io/kanzen/internal/engine/admission/policy"
	"github.com/kanzen-io/kanzen/internal/engine/admission/webhook"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/object/cel"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
)

// admission makes the chain of plugins, in order.
func (b *base) admission(ctx context.Context, a authz.Authorizer, rails *webhook.Guardrails) (engine.Admission, error) {
	d := plugin.Deps{
		Registry: b.metrics.Registry(), Gates: b.cfg.Gates(),
		Objects: b.objects, Authorizer: a, Resources: b.objects.ResourcesOf, NameSuffix: engine.NameSuffix, Clock: b.process.Clock,
		CreateNamespace: b.createNamespace,
		NotReadySeconds: b.cfg.NotReadySeconds, UnreachableSeconds: b.cfg.UnreachableSeconds,
		Others: map[string]admission.Plugin{},
	}
	if file := b.cfg.AdmissionConfigFile; file != "" {
		var err error
		if d.Config, err = plugin.ReadConfig(file); err != nil {
			return nil, fmt.Errorf("--admission-control-config-file: %w", err)
		}
	}
	measures := measure.New()
	b.metrics.Register(measures.Collectors()...)
	compiler := b.process.Expressions
	if err := b.webhooks(ctx, &d, compiler, measures, rails); err != nil {
		return nil, err
	}
	if err := b.policies(ctx, &d, compiler, measures); err != nil {
		return nil, err
	}
	enable, disable := b.cfg.AdmissionPlugins()
	chain, err := plugin.Chain(d, enable, disable)
	if err != nil {
		return nil, err
	}
	return measures.Chain(append(chain, b.seams.Admit...), b.process.Clock), nil
}

// guardrails makes what is done about bad webhooks.
func (b *base) guardrails() *webhook.Guardrails {
	return webhook.NewGuardrails(webhook.GuardrailsConfig{Warn: b.cfg.WebhookAdvice, Patience: b.cfg.WebhookBreaker,
		Clock: b.process.Clock, Guard: b.guard, Log: b.log, Registry: b.metrics.Registry()})
}

// webhooks makes the two plugins that call webhooks.
func (b *base) webhooks(ctx context.Context, d *plugin.Deps, c *cel.Compiler, m *measure.Metrics, rails *webhook.Guardrails) error {
	w := webhook.Deps{
		Mutating: b.registered("mutatingwebhookconfigurations"), Validating: b.registered("validatingwebhookconfigurations"),
		Namespaces: b.objects, Authorizer: d.Authorizer, Compiler: c, Metrics: m,
		NewUID: func() types.UID { return types.UID(uuid.NewString()) },
		Clock:  b.process.Clock, Log: b.log,
		Guardrails: rails, Manifests: map[string]admission.View{}, NotReviews: d.Gates.Enabled(features.ExcludeAdmissionWebhookVirtualResources),
		Rehearsal: b.seams.origin.rehearses(),
	}
	for name, make := range map[string]func(webhook.Deps) admission.Plugin{
		webhook.MutatingName: webhook.Mutating, webhook.ValidatingName: webhook.Validating,
	} {
		if !b.enabled(name) {
			continue
		}
		credentials, dir, err := webhook.ReadConfig(d.Config[name])
		if err != nil {
			return fmt.Errorf("couldn't init admission plugin %q: %w", name, err)
		}
		manifests, err := b.manifests(ctx, name, dir, "webhook")
		if err != nil {
			return err
		}
		if manifests != nil {
			w.Manifests[name] = manifests.View(webhookKinds[name])
		}
		w.Clients = b.clients(credentials)
		d.Others[name] = make(w)
	}
	return nil
}

// clients makes the clients of webhooks.
func (b *base) clients(c webhook.Credentials) *webhook.Clients {
	d := webhook.Dialers{Services: b.process.Egress.Dial(egress.Cluster), URLs: b.process.Egress.Dial(egress.ControlPlane), InProcess: b.seams.Webhook}
	made := webhook.NewClients(c, d, b.resolver(), b.door.Transport(controlplane.Itself()))
	made.Measured, made.ByEndpoint = b.sends.Webhooks, b.cfg.Gates().Enabled(features.WebhookRoundTripLoadBalancing)
	b.opened.Add(made.Close)
	return made
}

// policies makes the two plugins that evaluate policies.
func (b *base) policies(ctx context.Context, d *plugin.Deps, c *cel.Compiler, m *measure.Metrics) error {
	p := policy.Deps{
		ValidatingPolicies: b.registered("validatingadmissionpolicies"), ValidatingBindings: b.registered("validatingadmissionpolicybindings"),
		MutatingPolicies: b.registered("mutatingadmissionpolicies"), MutatingBindings: b.registered("mutatingadmissionpolicybindings"),
		Params: catalog.Params{Raw: b.objects}, Namespaces: b.objects, Authorizer: d.Authorizer, Compiler: c, Metrics: m, Log: b.log,
		Manifests: map[string]*policy.Source{},
	}
	for name, make := range map[string]func(policy.Deps) admission.Plugin{
		policy.ValidatingName: policy.Validating, policy.MutatingName: policy.Mutating,
	} {
		if !b.enabled(name) {
			continue
		}
		dir, err := policy.ReadConfig(name, d.Config[name])
		if err != nil {
			return fmt.Errorf("couldn't init admission plugin %q: %w", name, err)
		}
		manifests, err := b.manifests(ctx, name, dir, "policy")
		if err != nil {
			return err
		}
		if manifests != nil {
			p.Manifests[name] = &policy.Source{Policies: manifests.View(name), Bindings: manifests.View(name + "Binding")}
		}
		d.Others[name] = make(p)
	}
	return nil
}

// registered gives the stored objects of one resource that configures
// admission.
func (b *base) registered(resource string) registered {
	return registered{b.objects, schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: resource}}
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

// createNamespace creates a namespace as the server's own user.
func (b *base) createNamespace(ctx context.Context, name string) error {
	namespaces := inprocess.Target{Resource: corev1.SchemeGroupVersion.WithResource("namespaces")}
	_, err := b.itself.Create(ctx, namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return err
}
