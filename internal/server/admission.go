package server

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/api/dynamicadmission"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission/manifest"
	"github.com/kanzen-io/kanzen/internal/engine/admission/measure"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin"
	"github.com/kanzen-io/kanzen/internal/engine/admission/webhook"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
)

// admission makes the chain of plugins, in order, and the directories of manifests that it reads.
func (b *base) admission(ctx context.Context, a authz.Authorizer, rails *webhook.Guardrails) (engine.Admission, []*manifest.Directory, error) {
	d := plugin.Deps{
		Registry: b.metrics.Registry(), Gates: b.cfg.Gates(),
		Objects: b.objects, Authorizer: a, Resources: b.objects.ResourcesOf, NameSuffix: engine.NameSuffix, Clock: b.process.Clock,
		CreateNamespace: func(ctx context.Context, name string) error {
			_, err := b.itself.Create(ctx, inprocess.Target{Resource: corev1.SchemeGroupVersion.WithResource("namespaces")}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
			return err
		},
		NotReadySeconds: b.cfg.NotReadySeconds, UnreachableSeconds: b.cfg.UnreachableSeconds,
	}
	if file := b.cfg.AdmissionConfigFile; file != "" {
		var err error
		if d.Config, err = plugin.ReadConfig(file); err != nil {
			return nil, nil, fmt.Errorf("--admission-control-config-file: %w", err)
		}
	}
	measures := measure.New()
	b.metrics.Register(measures.Collectors()...)
	enable, disable := b.cfg.AdmissionPlugins()
	dynamic, err := dynamicadmission.New(ctx, dynamicadmission.Config{
		Objects: b.objects, Authorizer: a, Gates: b.cfg.Gates(), Configurations: d.Config, Enabled: func(name string) bool { return plugin.Enabled(name, enable, disable) },
		Compiler: b.process.Expressions, Measures: measures, Clients: b.clients, Guardrails: rails, Rehearsal: b.seams.origin.rehearses(),
		Server: controlplane.IdentityName(b.process.Hostname()), Registry: b.metrics.Registry(), Clock: b.process.Clock, Log: b.log,
	})
	if err != nil {
		return nil, nil, err
	}
	d.Others = dynamic.Plugins
	chain, err := plugin.Chain(d, enable, disable)
	if err != nil {
		return nil, nil, err
	}
	return measures.Chain(append(chain, b.seams.Admit...), b.process.Clock), dynamic.Directories, nil
}

// guardrails makes what is done about bad webhooks.
func (b *base) guardrails() *webhook.Guardrails {
	return webhook.NewGuardrails(webhook.GuardrailsConfig{Warn: b.cfg.WebhookAdvice, Patience: b.cfg.WebhookBreaker,
		Clock: b.process.Clock, Guard: b.guard, Log: b.log, Registry: b.metrics.Registry()})
}

// clients makes the clients of webhooks.
func (b *base) clients(c webhook.Credentials) *webhook.Clients {
	d := webhook.Dialers{Services: b.process.Egress.Dial(egress.Cluster), URLs: b.process.Egress.Dial(egress.ControlPlane), InProcess: b.seams.Webhook}
	made := webhook.NewClients(c, d, b.resolver(), b.door.Transport(controlplane.Itself()))
	made.Measured, made.ByEndpoint = b.sends.Webhooks, b.cfg.Gates().Enabled(features.WebhookRoundTripLoadBalancing)
	b.opened.Add(made.Close)
	return made
}
