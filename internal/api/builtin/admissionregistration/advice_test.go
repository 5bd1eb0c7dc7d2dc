package admissionregistration

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAdvice(t *testing.T) {
	fail, ignore, cluster := admissionv1.Fail, admissionv1.Ignore, admissionv1.ClusterScope
	pods := admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}
	all := admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{"*"}, Rule: admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}}}
	nodes := all
	nodes.Scope = &cluster
	without := func(names ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: names}}}
	}
	for name, c := range map[string]struct {
		change func(w *admissionv1.MutatingWebhook)
		want   []string
	}{
		"own pods and kube-system": {func(*admissionv1.MutatingWebhook) {}, []string{`own namespace "hooks"`, "kube-system"}},
		"own namespace left out":   {func(w *admissionv1.MutatingWebhook) { w.NamespaceSelector = without("hooks") }, []string{"kube-system"}},
		"both left out":            {func(w *admissionv1.MutatingWebhook) { w.NamespaceSelector = without("hooks", "kube-system") }, nil},
		"everything":               {func(w *admissionv1.MutatingWebhook) { w.Rules = append(w.Rules, all) }, []string{"every resource in every namespace"}},
		"cluster scope":            {func(w *admissionv1.MutatingWebhook) { w.Rules = []admissionv1.RuleWithOperations{nodes} }, nil},
		"by default":               {func(w *admissionv1.MutatingWebhook) { w.FailurePolicy = nil }, []string{`own namespace "hooks"`, "kube-system"}},
		"ignored":                  {func(w *admissionv1.MutatingWebhook) { w.FailurePolicy = &ignore }, nil},
		"updates": {func(w *admissionv1.MutatingWebhook) {
			w.Rules[0].Operations = []admissionv1.OperationType{admissionv1.Update}
		}, nil},
		"labelled objects": {func(w *admissionv1.MutatingWebhook) {
			w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, nil},
		"conditions":     {func(w *admissionv1.MutatingWebhook) { w.MatchConditions = []admissionv1.MatchCondition{{Name: "x"}} }, nil},
		"in kube-system": {func(w *admissionv1.MutatingWebhook) { w.ClientConfig.Service.Namespace = "kube-system" }, []string{`own namespace "kube-system"`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := admissionv1.MutatingWebhook{Name: "w", FailurePolicy: &fail, Rules: []admissionv1.RuleWithOperations{*pods.DeepCopy()},
				ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "hooks", Name: "s"}}}
			c.change(&w)
			got := AdviseMutating(&admissionv1.MutatingWebhookConfiguration{Webhooks: []admissionv1.MutatingWebhook{w}})
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			for n := range got {
				if !strings.Contains(got[n], c.want[n]) {
					t.Errorf("got %q, want %q", got[n], c.want[n])
				}
			}
		})
	}
}
