package admissionregistration

import (
	"cmp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// Ordered is a mutating webhook of a configuration.
type Ordered struct {
	Configuration string
	// Index is its place in the configuration.
	Index   int
	Webhook *admissionv1.MutatingWebhook
}

// Overlooking is a mutating webhook that does not see what a later one changes.
type Overlooking struct {
	Ordered
	Later string // CONFIGURATION/WEBHOOK
}

// Unseen finds mutating webhooks that do not see what later ones change in the same objects. Webhooks are asked by the names of
// their configurations, and within one in the order in which they stand there.
func Unseen(all []Ordered) (out []Overlooking) {
	slices.SortStableFunc(all, func(a, b Ordered) int {
		return cmp.Or(strings.Compare(a.Configuration, b.Configuration), cmp.Compare(a.Index, b.Index))
	})
	for n := range all {
		for later := n + 1; later < len(all); later++ {
			if !again(all[n].Webhook) && meet(all[n].Webhook.Rules, all[later].Webhook.Rules) {
				out = append(out, Overlooking{all[n], all[later].Configuration + "/" + all[later].Webhook.Name})
				break
			}
		}
	}
	return out
}

// again says that a webhook is asked again if others change the object after it.
func again(w *admissionv1.MutatingWebhook) bool {
	return w.ReinvocationPolicy != nil && *w.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy
}

// meet says that two webhooks are asked about some of the same resources.
func meet(a, b []admissionv1.RuleWithOperations) bool {
	common := func(x, y []string) bool {
		return slices.Contains(x, "*") || slices.Contains(y, "*") || slices.ContainsFunc(x, func(s string) bool { return slices.Contains(y, s) })
	}
	operations := func(all []admissionv1.OperationType) (out []string) {
		for _, o := range all {
			out = append(out, string(o))
		}
		return out
	}
	return slices.ContainsFunc(a, func(x admissionv1.RuleWithOperations) bool {
		return slices.ContainsFunc(b, func(y admissionv1.RuleWithOperations) bool {
			return common(x.APIGroups, y.APIGroups) && resourcesMeet(x.Resources, y.Resources) && common(operations(x.Operations), operations(y.Operations))
		})
	})
}

// resourcesMeet does so for the resources of rules: * is all without their subresources, */* all with them, pods/* is pods
// with theirs, */scale the scale of all.
func resourcesMeet(x, y []string) bool {
	part := func(a, b string) bool { return a == b || a == "*" || b == "*" }
	return slices.ContainsFunc(x, func(a string) bool {
		return slices.ContainsFunc(y, func(b string) bool {
			of, sub, _ := strings.Cut(a, "/")
			other, otherSub, _ := strings.Cut(b, "/")
			return part(of, other) && part(sub, otherSub)
		})
	})
}
