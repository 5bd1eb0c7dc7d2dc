// Package admissionregistration is the API group admissionregistration.k8s.io/v1:
// webhooks, admission policies and their bindings.
package admissionregistration

import (
	"context"
	"reflect"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
)

var v1 = admissionv1.SchemeGroupVersion

// Deps is what this group needs from the rest of the server. Checks apply to the context's user.
type Deps struct {
	// MayReadParamKind returns an error if the user may not read all objects of the kind. Nil: no check.
	MayReadParamKind func(ctx context.Context, kind admissionv1.ParamKind) error
	// MayReadParams returns an error if the user may not read the objects to which a binding of the policy refers. Nil:
	// no check.
	MayReadParams func(ctx context.Context, policyKind, policy string, ref *admissionv1.ParamRef) error
	// Manifests reserves names for objects from manifests.
	Manifests bool
	// NotReviews warns of rules of webhooks for reviews, for which none is called.
	NotReviews bool
	// Advise warns of webhooks that can stop a cluster.
	Advise bool
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	v := &validator{Deps: d, cel: newCompiler()}
	all := engine.Kinds(
		mutatingAdmissionPolicies(v),
		mutatingAdmissionPolicyBindings(v),
		mutatingWebhookConfigurations(v),
		validatingAdmissionPolicies(v),
		validatingAdmissionPolicyBindings(v),
		validatingWebhookConfigurations(v),
	)
	for _, r := range all {
		r.AwaitSeen = true
		r.Rules = v.reserves(r.Rules)
	}
	return all
}

// categories returns the categories of all kinds in the group.
func categories() []string { return []string{"api-extensions"} }

func mutatingWebhookConfigurations(v *validator) *engine.Resource {
	return &engine.Resource{
		Plural: "mutatingwebhookconfigurations", Kind: "MutatingWebhookConfiguration",
		Categories: categories(),
		Versions: []*engine.Version{engine.VersionOf[admissionv1.MutatingWebhookConfiguration, admissionv1.MutatingWebhookConfigurationList](
			v1, defaultMutatingWebhooks)},
		Rules: engine.Typed[*admissionv1.MutatingWebhookConfiguration]{
			PrepareCreate: func(_ context.Context, c *admissionv1.MutatingWebhookConfiguration) { c.Generation = 1 },
			PrepareUpdate: func(_ context.Context, c, old *admissionv1.MutatingWebhookConfiguration) {
				if !reflect.DeepEqual(c.Webhooks, old.Webhooks) {
					c.Generation = old.Generation + 1
				}
			},
			Validate:             v.validateMutatingWebhooks,
			ValidateUpdate:       v.validateMutatingWebhooksUpdate,
			Warn:                 advised(v, mutatingHooks, AdviseMutating),
			NeedsResourceVersion: true,
		}.Rules(),
		Table: mutatingWebhookConfigurationTable(),
	}
}

func validatingWebhookConfigurations(v *validator) *engine.Resource {
	return &engine.Resource{
		Plural: "validatingwebhookconfigurations", Kind: "ValidatingWebhookConfiguration",
		Categories: categories(),
		Versions: []*engine.Version{engine.VersionOf[admissionv1.ValidatingWebhookConfiguration, admissionv1.ValidatingWebhookConfigurationList](
			v1, defaultValidatingWebhooks)},
		Rules: engine.Typed[*admissionv1.ValidatingWebhookConfiguration]{
			PrepareCreate: func(_ context.Context, c *admissionv1.ValidatingWebhookConfiguration) { c.Generation = 1 },
			PrepareUpdate: func(_ context.Context, c, old *admissionv1.ValidatingWebhookConfiguration) {
				if !reflect.DeepEqual(c.Webhooks, old.Webhooks) {
					c.Generation = old.Generation + 1
				}
			},
			Validate:             v.validateValidatingWebhooks,
			ValidateUpdate:       v.validateValidatingWebhooksUpdate,
			Warn:                 advised(v, validatingHooks, AdviseValidating),
			NeedsResourceVersion: true,
		}.Rules(),
		Table: validatingWebhookConfigurationTable(),
	}
}

func validatingAdmissionPolicies(v *validator) *engine.Resource {
	return &engine.Resource{
		Plural: "validatingadmissionpolicies", Kind: "ValidatingAdmissionPolicy",
		Categories: categories(),
		Versions: []*engine.Version{engine.VersionOf[admissionv1.ValidatingAdmissionPolicy, admissionv1.ValidatingAdmissionPolicyList](
			v1, defaultValidatingPolicy)},
		Rules: engine.Typed[*admissionv1.ValidatingAdmissionPolicy]{
			StatusApart:          true,
			CountsSpec:           true,
			Validate:             v.validateValidatingPolicy,
			ValidateUpdate:       v.validateValidatingPolicyUpdate,
			Warn:                 warnName[*admissionv1.ValidatingAdmissionPolicy](v),
			NeedsResourceVersion: true,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.LoneStatus(engine.Typed[*admissionv1.ValidatingAdmissionPolicy]{
			ValidateUpdate:       validateValidatingPolicyStatus,
			Warn:                 warnName[*admissionv1.ValidatingAdmissionPolicy](v),
			NeedsResourceVersion: true,
		})},
		Table: validatingAdmissionPolicyTable(),
	}
}

func validatingAdmissionPolicyBindings(v *validator) *engine.Resource {
	return &engine.Resource{
		Plural: "validatingadmissionpolicybindings", Kind: "ValidatingAdmissionPolicyBinding",
		Categories: categories(),
		Versions: []*engine.Version{engine.VersionOf[admissionv1.ValidatingAdmissionPolicyBinding, admissionv1.ValidatingAdmissionPolicyBindingList](
			v1, func(b *admissionv1.ValidatingAdmissionPolicyBinding) { defaultMatch(b.Spec.MatchResources) })},
		Rules: engine.Typed[*admissionv1.ValidatingAdmissionPolicyBinding]{
			CountsSpec:           true,
			Validate:             v.validateValidatingBinding,
			ValidateUpdate:       v.validateValidatingBindingUpdate,
			Warn:                 warnName[*admissionv1.ValidatingAdmissionPolicyBinding](v),
			NeedsResourceVersion: true,
		}.Rules(),
		Table: validatingAdmissionPolicyBindingTable(),
	}
}

// v1beta1 is the version in which mutating policies are stored as long as 1.35 has to read them; the bytes are the same in
// both versions.
var v1beta1 = schema.GroupVersion{Group: admissionv1.GroupName, Version: "v1beta1"}

func mutatingAdmissionPolicies(v *validator) *engine.Resource {
	return &engine.Resource{
		Stored: &engine.Stored{GroupVersion: v1beta1},
		Plural: "mutatingadmissionpolicies", Kind: "MutatingAdmissionPolicy",
		Categories: categories(),
		Versions: engine.Renamed(engine.VersionOf[admissionv1.MutatingAdmissionPolicy, admissionv1.MutatingAdmissionPolicyList](
			v1, defaultMutatingPolicy),
			engine.VersionOf[admissionv1beta1.MutatingAdmissionPolicy, admissionv1beta1.MutatingAdmissionPolicyList](admissionv1beta1.SchemeGroupVersion, nil),
			engine.VersionOf[admissionv1alpha1.MutatingAdmissionPolicy, admissionv1alpha1.MutatingAdmissionPolicyList](admissionv1alpha1.SchemeGroupVersion, nil),
		),
		Rules: engine.Typed[*admissionv1.MutatingAdmissionPolicy]{
			CountsSpec:           true,
			Validate:             v.validateMutatingPolicy,
			ValidateUpdate:       v.validateMutatingPolicyUpdate,
			Warn:                 warnName[*admissionv1.MutatingAdmissionPolicy](v),
			NeedsResourceVersion: true,
		}.Rules(),
		Table: mutatingAdmissionPolicyTable(),
	}
}

func mutatingAdmissionPolicyBindings(v *validator) *engine.Resource {
	return &engine.Resource{
		Stored: &engine.Stored{GroupVersion: v1beta1},
		Plural: "mutatingadmissionpolicybindings", Kind: "MutatingAdmissionPolicyBinding",
		Categories: categories(),
		Versions: engine.Renamed(engine.VersionOf[admissionv1.MutatingAdmissionPolicyBinding, admissionv1.MutatingAdmissionPolicyBindingList](
			v1, func(b *admissionv1.MutatingAdmissionPolicyBinding) { defaultMatch(b.Spec.MatchResources) }),
			engine.VersionOf[admissionv1beta1.MutatingAdmissionPolicyBinding, admissionv1beta1.MutatingAdmissionPolicyBindingList](admissionv1beta1.SchemeGroupVersion, nil),
			engine.VersionOf[admissionv1alpha1.MutatingAdmissionPolicyBinding, admissionv1alpha1.MutatingAdmissionPolicyBindingList](admissionv1alpha1.SchemeGroupVersion, nil),
		),
		Rules: engine.Typed[*admissionv1.MutatingAdmissionPolicyBinding]{
			CountsSpec:           true,
			Validate:             v.validateMutatingBinding,
			ValidateUpdate:       v.validateMutatingBindingUpdate,
			Warn:                 warnName[*admissionv1.MutatingAdmissionPolicyBinding](v),
			NeedsResourceVersion: true,
		}.Rules(),
		Table: mutatingAdmissionPolicyBindingTable(),
	}
}
