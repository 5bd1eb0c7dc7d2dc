package admissionregistration

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/builtin/rules"
)

func validateMutatingWebhookConfiguration(_ context.Context, o *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
	return rules.ObjectMeta(&o.ObjectMeta, false, rules.Subdomain)
}

func validateMutatingWebhookConfigurationUpdate(_ context.Context, o, old *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func validateValidatingWebhookConfiguration(_ context.Context, o *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
	return rules.ObjectMeta(&o.ObjectMeta, false, rules.Subdomain)
}

func validateValidatingWebhookConfigurationUpdate(_ context.Context, o, old *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func (d Deps) validateValidatingAdmissionPolicy(_ context.Context, o *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	return rules.ObjectMeta(&o.ObjectMeta, false, rules.Subdomain)
}

func (d Deps) validateValidatingAdmissionPolicyUpdate(_ context.Context, o, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func validateValidatingAdmissionPolicyStatus(_ context.Context, o, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func (d Deps) validateValidatingAdmissionPolicyBinding(_ context.Context, o *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	return rules.ObjectMeta(&o.ObjectMeta, false, rules.Subdomain)
}

func (d Deps) validateValidatingAdmissionPolicyBindingUpdate(_ context.Context, o, old *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func (d Deps) validateMutatingAdmissionPolicy(_ context.Context, o *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
	return rules.ObjectMeta(&o.ObjectMeta, false, rules.Subdomain)
}

func (d Deps) validateMutatingAdmissionPolicyUpdate(_ context.Context, o, old *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func (d Deps) validateMutatingAdmissionPolicyBinding(_ context.Context, o *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	return rules.ObjectMeta(&o.ObjectMeta, false, rules.Subdomain)
}

func (d Deps) validateMutatingAdmissionPolicyBindingUpdate(_ context.Context, o, old *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}
