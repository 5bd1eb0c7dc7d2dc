package admissionregistration

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// adviseWebhook returns warnings for a webhook that can stop a cluster: one whose failure refuses writes that are needed
// to bring it back.
func adviseWebhook(name string, client *admissionv1.WebhookClientConfig, rules []admissionv1.RuleWithOperations, policy *admissionv1.FailurePolicyType,
	namespaces, objects *metav1.LabelSelector, conditions []admissionv1.MatchCondition) []string {
	if policy != nil && *policy == admissionv1.Ignore || len(conditions) > 0 || !everything(objects) {
		return nil // what conditions and labels leave out cannot be told from here
	}
	var out []string
	warn := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("webhook %q: ", name)+fmt.Sprintf(format, args...))
	}
	if everything(namespaces) && slices.ContainsFunc(rules, matchesEverything) {
		warn("it matches every resource in every namespace, and while it cannot be reached all such writes are refused (failurePolicy Fail)")
		return out
	}
	if !slices.ContainsFunc(rules, matchesPods) {
		return nil
	}
	if s := client.Service; s != nil && selectsNamespace(namespaces, s.Namespace) {
		warn("it matches pods in its own namespace %q: once it is down, its pods cannot be created again (failurePolicy Fail); leave the namespace out by namespaceSelector", s.Namespace)
	}
	if selectsNamespace(namespaces, metav1.NamespaceSystem) && !(client.Service != nil && client.Service.Namespace == metav1.NamespaceSystem) {
		warn("it matches pods in %s: while it cannot be reached, the pods of the control plane, DNS and the network cannot be created (failurePolicy Fail); leave the namespace out by namespaceSelector", metav1.NamespaceSystem)
	}
	return out
}

func everything(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

// selectsNamespace says that a selector matches a namespace that has only the label that every namespace has.
func selectsNamespace(s *metav1.LabelSelector, name string) bool {
	if s == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set{corev1.LabelMetadataName: name})
}

func has(list []string, item string) bool {
	return slices.Contains(list, item) || slices.Contains(list, "*")
}

func matchesEverything(r admissionv1.RuleWithOperations) bool {
	return slices.Contains(r.APIGroups, "*") && (slices.Contains(r.Resources, "*") || slices.Contains(r.Resources, "*/*")) &&
		(r.Scope == nil || *r.Scope == admissionv1.AllScopes || *r.Scope == admissionv1.NamespacedScope)
}

func matchesPods(r admissionv1.RuleWithOperations) bool {
	creates := slices.Contains(r.Operations, admissionv1.Create) || slices.Contains(r.Operations, admissionv1.OperationAll)
	inNamespaces := r.Scope == nil || *r.Scope != admissionv1.ClusterScope
	return creates && inNamespaces && has(r.APIGroups, "") && has(r.APIVersions, "v1") && (has(r.Resources, "pods") || slices.Contains(r.Resources, "*/*"))
}

// AdviseMutating returns the warnings for a configuration whose webhooks can stop a cluster.
func AdviseMutating(c *admissionv1.MutatingWebhookConfiguration) (out []string) {
	for n := range c.Webhooks {
		w := &c.Webhooks[n]
		out = append(out, adviseWebhook(w.Name, &w.ClientConfig, w.Rules, w.FailurePolicy, w.NamespaceSelector, w.ObjectSelector, w.MatchConditions)...)
	}
	return out
}

// AdviseValidating is AdviseMutating for validating webhooks.
func AdviseValidating(c *admissionv1.ValidatingWebhookConfiguration) (out []string) {
	for n := range c.Webhooks {
		w := &c.Webhooks[n]
		out = append(out, adviseWebhook(w.Name, &w.ClientConfig, w.Rules, w.FailurePolicy, w.NamespaceSelector, w.ObjectSelector, w.MatchConditions)...)
	}
	return out
}

// advised adds advice to the warnings for a new or changed configuration.
func advised[T engine.Object](v *validator, hooks func(T) []hook, advise func(T) []string) func(ctx context.Context, obj, old T) []string {
	return func(ctx context.Context, obj, old T) []string {
		out := warnName[T](v)(ctx, obj, old)
		if v.NotReviews {
			out = append(out, warnReviews(hooks(obj))...)
		}
		if v.Advise {
			out = append(out, advise(obj)...)
		}
		return out
	}
}
