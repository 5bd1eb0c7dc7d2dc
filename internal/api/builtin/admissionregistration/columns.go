package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func mutatingWebhookConfigurationTable() *engine.Table {
	return engine.TableOf(mutatingWebhookConfigurationRow, webhookColumns()...)
}

func mutatingWebhookConfigurationRow(c *admissionv1.MutatingWebhookConfiguration) []any {
	return []any{c.Name, int64(len(c.Webhooks)), cells.Since(c.CreationTimestamp)}
}

func validatingWebhookConfigurationTable() *engine.Table {
	return engine.TableOf(validatingWebhookConfigurationRow, webhookColumns()...)
}

func validatingWebhookConfigurationRow(c *admissionv1.ValidatingWebhookConfiguration) []any {
	return []any{c.Name, int64(len(c.Webhooks)), cells.Since(c.CreationTimestamp)}
}

func webhookColumns() []cells.Column {
	return []cells.Column{
		cells.Name(),
		cells.Integer("Webhooks", "How many webhooks the configuration registers."),
		cells.Age(),
	}
}

func validatingAdmissionPolicyTable() *engine.Table {
	return engine.TableOf(validatingAdmissionPolicyRow,
		cells.Name(),
		cells.Integer("Validations", "How many rules the policy has."),
		cells.String("ParamKind", "The kind of the policy's parameters."),
		cells.Age(),
	)
}

func validatingAdmissionPolicyRow(p *admissionv1.ValidatingAdmissionPolicy) []any {
	return []any{p.Name, int64(len(p.Spec.Validations)), paramKindCell(p.Spec.ParamKind), cells.Since(p.CreationTimestamp)}
}

func mutatingAdmissionPolicyTable() *engine.Table {
	return engine.TableOf(mutatingAdmissionPolicyRow,
		cells.Name(),
		cells.Integer("Mutations", "How many mutations the policy has."),
		cells.String("ParamKind", "The kind of the policy's parameters."),
		cells.Age(),
	)
}

func mutatingAdmissionPolicyRow(p *admissionv1.MutatingAdmissionPolicy) []any {
	return []any{p.Name, int64(len(p.Spec.Mutations)), paramKindCell(p.Spec.ParamKind), cells.Since(p.CreationTimestamp)}
}

func validatingAdmissionPolicyBindingTable() *engine.Table {
	return engine.TableOf(validatingAdmissionPolicyBindingRow, policyBindingColumns()...)
}

func validatingAdmissionPolicyBindingRow(b *admissionv1.ValidatingAdmissionPolicyBinding) []any {
	return []any{b.Name, b.Spec.PolicyName, paramRefCell(b.Spec.ParamRef), cells.Since(b.CreationTimestamp)}
}

func mutatingAdmissionPolicyBindingTable() *engine.Table {
	return engine.TableOf(mutatingAdmissionPolicyBindingRow, policyBindingColumns()...)
}

func mutatingAdmissionPolicyBindingRow(b *admissionv1.MutatingAdmissionPolicyBinding) []any {
	return []any{b.Name, b.Spec.PolicyName, paramRefCell(b.Spec.ParamRef), cells.Since(b.CreationTimestamp)}
}

func policyBindingColumns() []cells.Column {
	return []cells.Column{
		cells.Name(),
		cells.String("PolicyName", "The policy that is bound."),
		cells.String("ParamRef", "Where the policy's parameters are."),
		cells.Age(),
	}
}

func paramKindCell(k *admissionv1.ParamKind) string {
	if k == nil {
		return cells.Unset
	}
	return k.APIVersion + "/" + k.Kind
}

// paramRefCell returns the text of a parameter reference. It is unknown here whether the kind is namespaced, so an
// empty namespace is shown as "*".
func paramRefCell(r *admissionv1.ParamRef) string {
	switch {
	case r != nil && r.Name != "":
		return cells.Or(r.Namespace, "*") + "/" + r.Name
	case r != nil && r.Selector != nil:
		return r.Selector.String()
	}
	return cells.Unset
}
