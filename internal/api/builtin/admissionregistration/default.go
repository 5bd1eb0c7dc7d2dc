package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// webhook is the fields of both kinds of webhooks, as pointers into either type.
type webhook struct {
	client    *admissionv1.WebhookClientConfig
	failure   **admissionv1.FailurePolicyType
	match     **admissionv1.MatchPolicyType
	namespace **metav1.LabelSelector
	object    **metav1.LabelSelector
	timeout   **int32
	rules     []admissionv1.RuleWithOperations
}

func (w webhook) setDefaults() {
	rules.DefaultPtr(w.failure, admissionv1.Fail)
	rules.DefaultPtr(w.match, admissionv1.Equivalent)
	rules.DefaultPtr(w.namespace, metav1.LabelSelector{})
	rules.DefaultPtr(w.object, metav1.LabelSelector{})
	rules.DefaultPtr(w.timeout, 10)
	if w.client.Service != nil {
		rules.DefaultPtr(&w.client.Service.Port, 443)
	}
	for i := range w.rules {
		rules.DefaultPtr(&w.rules[i].Scope, admissionv1.AllScopes)
	}
}

func defaultMutatingWebhooks(c *admissionv1.MutatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		webhook{&w.ClientConfig, &w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector, &w.TimeoutSeconds, w.Rules}.setDefaults()
		rules.DefaultPtr(&w.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
	}
}

func defaultValidatingWebhooks(c *admissionv1.ValidatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		webhook{&w.ClientConfig, &w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector, &w.TimeoutSeconds, w.Rules}.setDefaults()
	}
}

func defaultValidatingPolicy(p *admissionv1.ValidatingAdmissionPolicy) {
	rules.DefaultPtr(&p.Spec.FailurePolicy, admissionv1.Fail)
	defaultMatch(p.Spec.MatchConstraints)
}

func defaultMutatingPolicy(p *admissionv1.MutatingAdmissionPolicy) {
	rules.DefaultPtr(&p.Spec.FailurePolicy, admissionv1.Fail)
	defaultMatch(p.Spec.MatchConstraints)
}

func defaultMatch(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	rules.DefaultPtr(&m.MatchPolicy, admissionv1.Equivalent)
	rules.DefaultPtr(&m.NamespaceSelector, metav1.LabelSelector{})
	rules.DefaultPtr(&m.ObjectSelector, metav1.LabelSelector{})
	for _, list := range [][]admissionv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range list {
			rules.DefaultPtr(&list[i].Scope, admissionv1.AllScopes)
		}
	}
}
