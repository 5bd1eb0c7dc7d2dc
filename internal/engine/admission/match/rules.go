package match

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Rules select writes.
type Rules struct {
	// Include has the rules of which at least one must match. With All an empty
	// list matches every write.
	Include []admissionv1.NamedRuleWithOperations
	All     bool
	// Exclude has the rules of which none may match.
	Exclude []admissionv1.NamedRuleWithOperations
	// Equivalent lets rules match that name another version of the resource.
	Equivalent bool
}

// Match says whether the rules match a write, and the version in which to
// present it: the write's own if the rules name that, else another one that
// they name.
func (r *Rules) Match(a *admission.Attributes) (admission.Version, bool) {
	if _, excluded := match(r.Exclude, r.Equivalent, a); excluded {
		return admission.Version{}, false
	}
	if r.All && len(r.Include) == 0 {
		return own(a), true
	}
	return match(r.Include, r.Equivalent, a)
}

// named says that the result may depend on the object's name.
func (r *Rules) named() bool {
	has := func(n admissionv1.NamedRuleWithOperations) bool { return len(n.ResourceNames) > 0 }
	return slices.ContainsFunc(r.Include, has) || slices.ContainsFunc(r.Exclude, has)
}

func own(a *admission.Attributes) admission.Version {
	return admission.Version{Resource: a.Resource, Kind: a.Kind}
}

// match looks for a rule that matches. It prefers the write's own version to
// others, and earlier rules to later ones.
func match(rules []admissionv1.NamedRuleWithOperations, equivalent bool, a *admission.Attributes) (admission.Version, bool) {
	for i := range rules {
		if matches(&rules[i], a, a.Resource) {
			return own(a), true
		}
	}
	if !equivalent || a.Versions == nil || len(rules) == 0 {
		return admission.Version{}, false
	}
	versions := a.Versions.All(a.Subresource)
	if len(versions) < 2 {
		return admission.Version{}, false
	}
	for i := range rules {
		for _, v := range versions {
			if v.Resource != a.Resource && matches(&rules[i], a, v.Resource) {
				return v, true
			}
		}
	}
	return admission.Version{}, false
}

// matches says whether a rule matches a write as if it was in the given
// version.
func matches(r *admissionv1.NamedRuleWithOperations, a *admission.Attributes, gvr schema.GroupVersionResource) bool {
	return inScope(r.Scope, a, gvr) && hasOperation(r.Operations, a.Operation) &&
		hasOrAll(r.APIGroups, gvr.Group) && hasOrAll(r.APIVersions, gvr.Version) &&
		hasResource(r.Resources, gvr.Resource, a.Subresource) &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.Name))
}

// inScope checks the scope of a rule. A namespace is cluster-scoped here,
// although its requests have a namespace.
func inScope(s *admissionv1.ScopeType, a *admission.Attributes, gvr schema.GroupVersionResource) bool {
	if s == nil || *s == admissionv1.AllScopes {
		return true
	}
	cluster := a.Namespace == "" || gvr == schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	switch *s {
	case admissionv1.NamespacedScope:
		return !cluster
	case admissionv1.ClusterScope:
		return cluster
	}
	return false
}

func hasOperation(ops []admissionv1.OperationType, op admission.Operation) bool {
	for _, o := range ops {
		if o == admissionv1.OperationAll || o == admissionv1.OperationType(op) {
			return true
		}
	}
	return false
}

func hasOrAll(items []string, want string) bool {
	for _, i := range items {
		if i == "*" || i == want {
			return true
		}
	}
	return false
}

// hasResource matches "pods", "pods/status", "pods/*", "*/scale", "*", "*/*".
func hasResource(items []string, resource, subresource string) bool {
	for _, i := range items {
		res, sub, _ := strings.Cut(i, "/")
		if (res == "*" || res == resource) && (sub == "*" || sub == subresource) {
			return true
		}
	}
	return false
}

// IsConfiguration says that a write is to one of the kinds that configure
// admission. Only webhooks of manifests are called for those: a broken webhook
// that is stored could prevent its own repair.
func IsConfiguration(a *admission.Attributes) bool {
	if a.Kind.Group != admissionv1.GroupName {
		return false
	}
	switch a.Kind.Kind {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
		return true
	}
	return false
}

// IsPolicy says that a write is to a policy or binding, to which only policies
// of manifests apply.
func IsPolicy(a *admission.Attributes) bool {
	if a.Resource.Group != admissionv1.GroupName {
		return false
	}
	switch a.Resource.Resource {
	case "validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"mutatingadmissionpolicies", "mutatingadmissionpolicybindings":
		return true
	}
	return false
}

// IsReview says that a write is a review of who somebody is or what they may do,
// which a cluster needs to work at all: policies do not apply to it.
func IsReview(a *admission.Attributes) bool { return Review(a.Resource.GroupResource()) }

// Review says that a resource is one of those reviews.
func Review(gr schema.GroupResource) bool {
	switch gr.Group {
	case "authentication.k8s.io":
		return gr.Resource == "selfsubjectreviews" || gr.Resource == "tokenreviews"
	case "authorization.k8s.io":
		switch gr.Resource {
		case "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews":
			return true
		}
	}
	return false
}
