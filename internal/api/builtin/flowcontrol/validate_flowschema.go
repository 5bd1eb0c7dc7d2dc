package flowcontrol

import (
	"context"
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func validateFlowSchema(_ context.Context, s *flowcontrolv1.FlowSchema) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMeta(&s.ObjectMeta, false, rules.Subdomain))
	flowSchema(s, e)
	for _, m := range MandatoryFlowSchemas() {
		if m.Name == s.Name && !apiequality.Semantic.DeepEqual(s.Spec, m.Spec) {
			e.Invalid(s.Spec, fmt.Sprintf("spec of '%s' must equal the fixed value", s.Name))
		}
	}
	e.Add(flowSchemaStatus(s))
	return e.List()
}

func validateFlowSchemaUpdate(ctx context.Context, s, _ *flowcontrolv1.FlowSchema) field.ErrorList {
	return validateFlowSchema(ctx, s)
}

func validateFlowSchemaStatus(_ context.Context, s, _ *flowcontrolv1.FlowSchema) field.ErrorList {
	return flowSchemaStatus(s)
}

func flowSchemaStatus(s *flowcontrolv1.FlowSchema) field.ErrorList {
	var types []string
	for _, c := range s.Status.Conditions {
		types = append(types, string(c.Type))
	}
	return conditionTypes(types)
}

func flowSchema(s *flowcontrolv1.FlowSchema, e rules.Errors) {
	spec := &s.Spec
	switch precedence, n := e.Field("matchingPrecedence"), spec.MatchingPrecedence; {
	case n <= 0:
		precedence.Invalid(n, "must be a positive value")
	case n > maxPrecedence:
		precedence.Invalid(n, fmt.Sprintf("must not be greater than %d", maxPrecedence))
	case n == 1 && s.Name != nameExempt:
		precedence.Invalid(n, "only the schema named 'exempt' may have matchingPrecedence 1")
	}
	if m := spec.DistinguisherMethod; m != nil {
		rules.OneOf(e.Field("distinguisherMethod"), "type", m.Type, []flowcontrolv1.FlowDistinguisherMethodType{
			flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType,
		})
	}
	level := e.Field("priorityLevelConfiguration")
	if spec.PriorityLevelConfiguration.Name == "" {
		level.Field("name").Required("must reference a priority level")
	} else {
		level.Name("name", spec.PriorityLevelConfiguration.Name, rules.Subdomain)
	}
	for i := range spec.Rules {
		r, at := &spec.Rules[i], e.Field("rules").Item(i)
		if len(r.Subjects) == 0 {
			at.Field("subjects").Required("subjects must contain at least one value")
		}
		for k := range r.Subjects {
			subject(&r.Subjects[k], at.Field("subjects").Item(k))
		}
		if len(r.ResourceRules) == 0 && len(r.NonResourceRules) == 0 {
			at.Required("at least one of resourceRules and nonResourceRules has to be non-empty")
		}
		for k := range r.ResourceRules {
			resourceRule(&r.ResourceRules[k], at.Field("resourceRules").Item(k))
		}
		for k := range r.NonResourceRules {
			nonResourceRule(&r.NonResourceRules[k], at.Field("nonResourceRules").Item(k))
		}
	}
}

// subject checks that a subject has only the part that its kind names.
func subject(s *flowcontrolv1.Subject, e rules.Errors) {
	parts := []struct {
		kind  flowcontrolv1.SubjectKind
		name  string
		is    bool
		check func(e rules.Errors)
	}{
		{flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", s.ServiceAccount != nil, func(e rules.Errors) {
			serviceAccount(s.ServiceAccount, e)
		}},
		{flowcontrolv1.SubjectKindUser, "user", s.User != nil, func(e rules.Errors) { e.Present("name", s.User.Name) }},
		{flowcontrolv1.SubjectKindGroup, "group", s.Group != nil, func(e rules.Errors) { e.Present("name", s.Group.Name) }},
	}
	kinds := []flowcontrolv1.SubjectKind{
		flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser,
	}
	if !slices.Contains(kinds, s.Kind) {
		rules.OneOf(e, "kind", s.Kind, kinds)
		return
	}
	for _, p := range parts {
		switch {
		case p.kind == s.Kind && p.is:
			p.check(e.Field(p.name))
		case p.kind == s.Kind:
			e.Field(p.name).Required(fmt.Sprintf("%s is required when subject kind is '%s'", p.name, p.kind))
		case p.is:
			e.Field(p.name).Forbidden(fmt.Sprintf("%s is forbidden when subject kind is not '%s'", p.name, p.kind))
		}
	}
}

func serviceAccount(s *flowcontrolv1.ServiceAccountSubject, e rules.Errors) {
	if e.Present("name", s.Name) && s.Name != flowcontrolv1.NameAll {
		e.Name("name", s.Name, rules.ServiceAccountName)
	}
	if s.Namespace == "" {
		e.Field("namespace").Required("must specify namespace for service account")
	} else {
		e.Name("namespace", s.Namespace, rules.NamespaceName)
	}
}

var supportedVerbs = []string{
	"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch",
}

// wildcard reports an empty list, with the words of empty, and one in which "*" is not the only one of the items. It returns
// whether there are other items to validate.
func wildcard(name, items string, list []string, empty string, e rules.Errors) bool {
	switch all := slices.Contains(list, "*"); {
	case len(list) == 0:
		e.Field(name).Required(empty)
		return false
	case all && len(list) > 1:
		e.Field(name).Invalid(list, "if '*' is present, must not specify other "+items)
		return false
	default:
		return !all
	}
}

func verbs(list []string, e rules.Errors) {
	if !wildcard("verbs", "verbs", list, "verbs must contain at least one value", e) {
		return
	}
	if slices.ContainsFunc(list, func(v string) bool { return !slices.Contains(supportedVerbs, v) }) {
		e.AddError(field.NotSupported(e.Path().Child("verbs"), list, supportedVerbs))
	}
}

func resourceRule(r *flowcontrolv1.ResourcePolicyRule, e rules.Errors) {
	verbs(r.Verbs, e)
	wildcard("apiGroups", "api groups", r.APIGroups, "resource rules must supply at least one api group", e)
	wildcard("resources", "resources", r.Resources, "resource rules must supply at least one resource", e)
	if len(r.Namespaces) == 0 && r.ClusterScope {
		return
	}
	if wildcard("namespaces", "namespaces", r.Namespaces, "resource rules that are not cluster scoped must supply at least one namespace", e) {
		for i, n := range r.Namespaces {
			for _, why := range rules.NamespaceName(n, false) {
				e.Field("namespaces").Item(i).Invalid(n, "each member of this list must be '*' or a DNS-1123 label; "+why)
			}
		}
	}
}

func nonResourceRule(r *flowcontrolv1.NonResourcePolicyRule, e rules.Errors) {
	verbs(r.Verbs, e)
	if wildcard("nonResourceURLs", "non-resource URLs", r.NonResourceURLs, "nonResourceURLs must contain at least one value", e) {
		for i, u := range r.NonResourceURLs {
			if why := checkURLPath(u); why != "" {
				e.Field("nonResourceURLs").Item(i).Invalid(u, why)
			}
		}
	}
}

func checkURLPath(path string) string {
	stars := strings.Count(path, "*")
	switch {
	case path == "":
		return "must not be empty"
	case !strings.HasPrefix(path, "/"):
		return "must start with slash"
	case strings.Contains(path, " "):
		return "must not contain white-space"
	case strings.Contains(path, "//"):
		return "must not contain double slash"
	case stars > 1 || stars == 1 && !strings.HasSuffix(path, "/*"):
		return "wildcard can only do suffix matching"
	}
	return ""
}
