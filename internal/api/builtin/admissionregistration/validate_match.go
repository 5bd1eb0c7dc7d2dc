package admissionregistration

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	celenv "github.com/kanzen-io/kanzen/internal/object/cel"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var (
	scopes = []admissionv1.ScopeType{admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope}

	operations = []admissionv1.OperationType{
		admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Delete, admissionv1.Update,
	}
	// A deletion leaves nothing to mutate.
	mutatingOperations = []admissionv1.OperationType{
		admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Update,
	}

	failurePolicies = []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore}
	matchPolicies   = []admissionv1.MatchPolicyType{admissionv1.Equivalent, admissionv1.Exact}
	reinvocations   = []admissionv1.ReinvocationPolicyType{admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy}
)

// maxMatchConditions bounds the conditions evaluated for each request.
const maxMatchConditions = 64

// oneOf is rules.OneOf for a required pointer that has a default.
func oneOf[T ~string](e rules.Errors, name string, p *T, allowed []T) {
	if p == nil {
		e.Field(name).Required("")
		return
	}
	rules.OneOf(e, name, *p, allowed)
}

// alone reports a "*" that is not the only one of the items of a list.
func alone[T ~string](e rules.Errors, list []T, items string) {
	if len(list) > 1 && slices.Contains(list, "*") {
		e.Invalid(list, "if '*' is present, must not specify other "+items)
	}
}

func ruleWithOperations(r *admissionv1.RuleWithOperations, e rules.Errors) {
	at := e.Field("operations")
	if len(r.Operations) == 0 {
		at.Required("")
	}
	alone(at, r.Operations, "operations")
	for i, o := range r.Operations {
		if !slices.Contains(operations, o) {
			at.AddError(field.NotSupported(at.Path().Index(i), o, operations))
		}
	}
	if len(r.APIGroups) == 0 {
		e.Field("apiGroups").Required("")
	}
	alone(e.Field("apiGroups"), r.APIGroups, "API groups")
	versions := e.Field("apiVersions")
	if len(r.APIVersions) == 0 {
		versions.Required("")
	}
	alone(versions, r.APIVersions, "API versions")
	for i, v := range r.APIVersions {
		if v == "" {
			versions.Item(i).Required("")
		}
	}
	resources(r.Resources, e.Field("resources"))
	if r.Scope != nil {
		rules.OneOf(e, "scope", *r.Scope, scopes)
	}
}

// resources validates a list of resources and subresources ("pods", "pods/exec", "*/scale"): no item may include
// another.
func resources(list []string, e rules.Errors) {
	if len(list) == 0 {
		e.Required("")
	}
	var allOf, allNamed []string // the x of "x/*" and the x of "*/x"
	everything, allMain, main := false, false, false
	for i, r := range list {
		if r == "" {
			e.Item(i).Required("")
			continue
		}
		everything = everything || r == "*/*"
		allMain = allMain || r == "*"
		name, sub, found := strings.Cut(r, "/")
		if !found {
			// The last one decides, for compatibility.
			main = r != "*"
			continue
		}
		if slices.Contains(allOf, name) {
			e.Item(i).Invalid(r, "is in "+name+"/*")
		}
		if slices.Contains(allNamed, sub) {
			e.Item(i).Invalid(r, "is in */"+sub)
		}
		if sub == "*" {
			allOf = append(allOf, name)
		}
		if name == "*" {
			allNamed = append(allNamed, sub)
		}
	}
	if everything && len(list) > 1 {
		e.Invalid(list, "*/* must be alone")
	}
	if allMain && main {
		e.Invalid(list, "* contains all resources")
	}
}

func matchResources(m *admissionv1.MatchResources, e rules.Errors) {
	if m == nil {
		return
	}
	oneOf(e, "matchPolicy", m.MatchPolicy, matchPolicies)
	if m.NamespaceSelector == nil {
		e.Field("namespaceSelector").Required("")
	}
	e.LabelSelector("namespaceSelector", m.NamespaceSelector, false)
	if m.ObjectSelector == nil {
		e.Field("objectSelector").Required("")
	}
	e.LabelSelector("objectSelector", m.ObjectSelector, false)
	for i := range m.ResourceRules {
		namedRule(&m.ResourceRules[i], e.Field("resourceRules").Item(i))
	}
	for i := range m.ExcludeResourceRules {
		namedRule(&m.ExcludeResourceRules[i], e.Field("excludeResourceRules").Item(i))
	}
}

func namedRule(r *admissionv1.NamedRuleWithOperations, e rules.Errors) {
	for i, name := range r.ResourceNames {
		at := e.Field("resourceNames").Item(i)
		at.Messages(name, rules.Segment(name, false))
		if slices.Contains(r.ResourceNames[:i], name) {
			at.Duplicate(name)
		}
	}
	ruleWithOperations(&r.RuleWithOperations, e)
}

// matchConstraints is matchResources for a policy, which must match something.
func matchConstraints(m *admissionv1.MatchResources, e rules.Errors) {
	if m == nil {
		e.Required("")
		return
	}
	matchResources(m, e)
	if len(m.ResourceRules) == 0 {
		e.Field("resourceRules").Required("")
	}
}

// noDeletes reports operations that cannot be mutated.
func noDeletes(m *admissionv1.MatchResources, e rules.Errors) {
	if m == nil {
		return
	}
	for i := range m.ResourceRules {
		for _, o := range m.ResourceRules[i].Operations {
			rules.OneOf(e.Field("resourceRules"), "operations", o, mutatingOperations)
		}
	}
}

// matchConditions validates match conditions, which cannot use a policy's variables.
func (v *validator) matchConditions(list []admissionv1.MatchCondition, params bool, stored []admissionv1.MatchCondition, e rules.Errors) {
	if n := len(list); n > maxMatchConditions {
		e.AddError(field.TooMany(e.Path(), n, maxMatchConditions))
	}
	var names []string
	for i, c := range list {
		at := e.Item(i)
		if text := strings.TrimSpace(c.Expression); text == "" {
			at.Field("expression").Required("")
		} else {
			known := slices.ContainsFunc(stored, func(s admissionv1.MatchCondition) bool { return s.Expression == text })
			v.cel.check(at.Field("expression"), text, celenv.Scope{Params: params, Authorizer: true}, toBool, known)
		}
		if at.Present("name", c.Name) {
			at.Field("name").QualifiedName(c.Name)
			if slices.Contains(names, c.Name) {
				at.Field("name").Duplicate(c.Name)
			}
			names = append(names, c.Name)
		}
	}
}
