// Package admissionregistration is the API group admissionregistration.k8s.io/v1:
// webhooks, admission policies and their bindings.
package admissionregistration

import (
	"context"
	"reflect"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/builtin/rules"
	"github.com/kanzen-io/kanzen/internal/engine"
)

var v1 = admissionv1.SchemeGroupVersion

// Deps is what the rules of this group ask the rest of the server.
type Deps struct {
	// MayReadParams returns an error where the context's user may not read the
	// parameters that a policy or binding names. Nil: everybody may.
	MayReadParams func(ctx context.Context, kind *admissionv1.ParamKind, ref *admissionv1.ParamRef) error
	// ParamKindOf returns what kind of parameters a policy takes, nil where it
	// takes none or does not exist.
	ParamKindOf func(ctx context.Context, policyKind, name string) *admissionv1.ParamKind
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	return []*engine.Resource{
		mutatingAdmissionPolicies(d),
		mutatingAdmissionPolicyBindings(d),
		mutatingWebhookConfigurations(),
		validatingAdmissionPolicies(d),
		validatingAdmissionPolicyBindings(d),
		validatingWebhookConfigurations(),
	}
}

// categories is what all kinds of the group are in.
func categories() []string { return []string{"api-extensions"} }

func mutatingWebhookConfigurations() *engine.Resource {
	return &engine.Resource{
		Plural: "mutatingwebhookconfigurations", Singular: "mutatingwebhookconfiguration", Kind: "MutatingWebhookConfiguration",
		Categories: categories(),
		Prefix:     "mutatingwebhookconfigurations",
		Hub:        v1,
		Versions: []*engine.Version{engine.VersionOf[admissionv1.MutatingWebhookConfiguration, admissionv1.MutatingWebhookConfigurationList](
			v1, defaultMutatingWebhooks)},
		Rules: engine.Typed[*admissionv1.MutatingWebhookConfiguration]{
			PrepareCreate: func(_ context.Context, c *admissionv1.MutatingWebhookConfiguration) { c.Generation = 1 },
			PrepareUpdate: func(_ context.Context, c, old *admissionv1.MutatingWebhookConfiguration) {
				if !reflect.DeepEqual(c.Webhooks, old.Webhooks) {
					c.Generation = old.Generation + 1
				}
			},
			Validate:             validateMutatingWebhookConfiguration,
			ValidateUpdate:       validateMutatingWebhookConfigurationUpdate,
			Warn:                 warnName[*admissionv1.MutatingWebhookConfiguration],
			NeedsResourceVersion: true,
		}.Rules(),
		Table: mutatingWebhookConfigurationTable(),
	}
}

func validatingWebhookConfigurations() *engine.Resource {
	return &engine.Resource{
		Plural: "validatingwebhookconfigurations", Singular: "validatingwebhookconfiguration", Kind: "ValidatingWebhookConfiguration",
		Categories: categories(),
		Prefix:     "validatingwebhookconfigurations",
		Hub:        v1,
		Versions: []*engine.Version{engine.VersionOf[admissionv1.ValidatingWebhookConfiguration, admissionv1.ValidatingWebhookConfigurationList](
			v1, defaultValidatingWebhooks)},
		Rules: engine.Typed[*admissionv1.ValidatingWebhookConfiguration]{
			PrepareCreate: func(_ context.Context, c *admissionv1.ValidatingWebhookConfiguration) { c.Generation = 1 },
			PrepareUpdate: func(_ context.Context, c, old *admissionv1.ValidatingWebhookConfiguration) {
				if !reflect.DeepEqual(c.Webhooks, old.Webhooks) {
					c.Generation = old.Generation + 1
				}
			},
			Validate:             validateValidatingWebhookConfiguration,
			ValidateUpdate:       validateValidatingWebhookConfigurationUpdate,
			Warn:                 warnName[*admissionv1.ValidatingWebhookConfiguration],
			NeedsResourceVersion: true,
		}.Rules(),
		Table: validatingWebhookConfigurationTable(),
	}
}

func validatingAdmissionPolicies(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "validatingadmissionpolicies", Singular: "validatingadmissionpolicy", Kind: "ValidatingAdmissionPolicy",
		Categories: categories(),
		Prefix:     "validatingadmissionpolicies",
		Hub:        v1,
		Versions: []*engine.Version{engine.VersionOf[admissionv1.ValidatingAdmissionPolicy, admissionv1.ValidatingAdmissionPolicyList](
			v1, defaultValidatingPolicy)},
		Rules: engine.Typed[*admissionv1.ValidatingAdmissionPolicy]{
			PrepareCreate: func(_ context.Context, p *admissionv1.ValidatingAdmissionPolicy) {
				p.Status = admissionv1.ValidatingAdmissionPolicyStatus{}
				p.Generation = 1
			},
			PrepareUpdate: func(_ context.Context, p, old *admissionv1.ValidatingAdmissionPolicy) {
				p.Status = old.Status
				rules.RaiseGeneration(&p.ObjectMeta, &old.ObjectMeta, p.Spec, old.Spec)
			},
			Validate:             d.validateValidatingAdmissionPolicy,
			ValidateUpdate:       d.validateValidatingAdmissionPolicyUpdate,
			Warn:                 warnName[*admissionv1.ValidatingAdmissionPolicy],
			NeedsResourceVersion: true,
			Reset:                rules.ResetStatus,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*admissionv1.ValidatingAdmissionPolicy]{
			PrepareUpdate: func(_ context.Context, p, old *admissionv1.ValidatingAdmissionPolicy) {
				p.Spec = old.Spec
				metav1.ResetObjectMetaForStatus(&p.ObjectMeta, &old.ObjectMeta)
			},
			ValidateUpdate:       validateValidatingAdmissionPolicyStatus,
			Warn:                 warnName[*admissionv1.ValidatingAdmissionPolicy],
			NeedsResourceVersion: true,
			Reset:                rules.ResetSpecAndMetadata,
		})},
		Table: validatingAdmissionPolicyTable(),
	}
}

func validatingAdmissionPolicyBindings(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "validatingadmissionpolicybindings", Singular: "validatingadmissionpolicybinding", Kind: "ValidatingAdmissionPolicyBinding",
		Categories: categories(),
		Prefix:     "validatingadmissionpolicybindings",
		Hub:        v1,
		Versions: []*engine.Version{engine.VersionOf[admissionv1.ValidatingAdmissionPolicyBinding, admissionv1.ValidatingAdmissionPolicyBindingList](
			v1, func(b *admissionv1.ValidatingAdmissionPolicyBinding) { defaultMatch(b.Spec.MatchResources) })},
		Rules: engine.Typed[*admissionv1.ValidatingAdmissionPolicyBinding]{
			PrepareCreate: func(_ context.Context, b *admissionv1.ValidatingAdmissionPolicyBinding) { b.Generation = 1 },
			PrepareUpdate: func(_ context.Context, b, old *admissionv1.ValidatingAdmissionPolicyBinding) {
				rules.RaiseGeneration(&b.ObjectMeta, &old.ObjectMeta, b.Spec, old.Spec)
			},
			Validate:             d.validateValidatingAdmissionPolicyBinding,
			ValidateUpdate:       d.validateValidatingAdmissionPolicyBindingUpdate,
			Warn:                 warnName[*admissionv1.ValidatingAdmissionPolicyBinding],
			NeedsResourceVersion: true,
		}.Rules(),
		Table: validatingAdmissionPolicyBindingTable(),
	}
}

func mutatingAdmissionPolicies(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "mutatingadmissionpolicies", Singular: "mutatingadmissionpolicy", Kind: "MutatingAdmissionPolicy",
		Categories: categories(),
		Prefix:     "mutatingadmissionpolicies",
		Hub:        v1,
		Versions: []*engine.Version{engine.VersionOf[admissionv1.MutatingAdmissionPolicy, admissionv1.MutatingAdmissionPolicyList](
			v1, defaultMutatingPolicy)},
		Rules: engine.Typed[*admissionv1.MutatingAdmissionPolicy]{
			PrepareCreate: func(_ context.Context, p *admissionv1.MutatingAdmissionPolicy) { p.Generation = 1 },
			PrepareUpdate: func(_ context.Context, p, old *admissionv1.MutatingAdmissionPolicy) {
				rules.RaiseGeneration(&p.ObjectMeta, &old.ObjectMeta, p.Spec, old.Spec)
			},
			Validate:             d.validateMutatingAdmissionPolicy,
			ValidateUpdate:       d.validateMutatingAdmissionPolicyUpdate,
			Warn:                 warnName[*admissionv1.MutatingAdmissionPolicy],
			NeedsResourceVersion: true,
		}.Rules(),
		Table: mutatingAdmissionPolicyTable(),
	}
}

func mutatingAdmissionPolicyBindings(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "mutatingadmissionpolicybindings", Singular: "mutatingadmissionpolicybinding", Kind: "MutatingAdmissionPolicyBinding",
		Categories: categories(),
		Prefix:     "mutatingadmissionpolicybindings",
		Hub:        v1,
		Versions: []*engine.Version{engine.VersionOf[admissionv1.MutatingAdmissionPolicyBinding, admissionv1.MutatingAdmissionPolicyBindingList](
			v1, func(b *admissionv1.MutatingAdmissionPolicyBinding) { defaultMatch(b.Spec.MatchResources) })},
		Rules: engine.Typed[*admissionv1.MutatingAdmissionPolicyBinding]{
			PrepareCreate: func(_ context.Context, b *admissionv1.MutatingAdmissionPolicyBinding) { b.Generation = 1 },
			PrepareUpdate: func(_ context.Context, b, old *admissionv1.MutatingAdmissionPolicyBinding) {
				rules.RaiseGeneration(&b.ObjectMeta, &old.ObjectMeta, b.Spec, old.Spec)
			},
			Validate:             d.validateMutatingAdmissionPolicyBinding,
			ValidateUpdate:       d.validateMutatingAdmissionPolicyBindingUpdate,
			Warn:                 warnName[*admissionv1.MutatingAdmissionPolicyBinding],
			NeedsResourceVersion: true,
		}.Rules(),
		Table: mutatingAdmissionPolicyBindingTable(),
	}
}
