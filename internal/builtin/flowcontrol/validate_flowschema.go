package flowcontrol

import (
	"context"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/rules"
)

func validateFlowSchema(_ context.Context, s *flowcontrolv1.FlowSchema) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMeta(&s.ObjectMeta, false, rules.Subdomain))
	flowSchema(s, e)
	for _, m := range MandatoryFlowSchemas() {
		if m.Name == s.Name && !apiequality.Semantic.DeepEqual(s.Spec, m.Spec) {
			e.Invalid(s.Name, "is fixed for this name")
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
	e.Range("matchingPrecedence", int64(spec.MatchingPrecedence), 1, maxPrecedence)
	if spec.MatchingPrecedence == 1 && s.Name != nameExempt {
		e.Field("matchingPrecedence").Invalid(1, "only for the schema named exempt")
	}
	if m := spec.DistinguisherMethod; m != nil {
		rules.OneOf(e.Field("distinguisherMethod"), "type", m.Type, []flowcontrolv1.FlowDistinguisherMethodType{
			flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType,
		})
	}
	level := e.Field("priorityLevelConfiguration")
	if level.Present("name", spec.PriorityLevelConfiguration.Name) {
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
			e.Field(p.name).Required("for this kind")
		case p.is:
			e.Field(p.name).Forbidden("not for this kind")
		}
	}
}

func serviceAccount(s *flowcontrolv1.ServiceAccountSubject, e rules.Errors) {
	if e.Present("name", s.Name) && s.Name != flowcontrolv1.NameAll {
		e.Name("name", s.Name, rules.ServiceAccountName)
	}
	if e.Present("namespace", s.Namespace) {
		e.Name("namespace", s.Namespace, rules.NamespaceName)
	}
}

var supportedVerbs = []string{
	"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch",
}

// wildcard reports an empty list, and one in which "*" is not the only item. It returns whether there are other items
// to validate.
func wildcard(name string, list []string, e rules.Errors) bool {
	switch all := slices.Contains(list, "*"); {
	case len(list) == 0:
		e.Field(name).Required(name + " must contain at least one value")
		return false
	case all && len(list) > 1:
		e.Field(name).Invalid(list, "if '*' is present, must not specify other "+name)
		return false
	default:
		return !all
	}
}

func verbs(list []string, e rules.Errors) {
	if !wildcard("verbs", list, e) {
		return
	}
	for _, v := range list {
		if !slices.Contains(supportedVerbs, v) {
			e.AddError(field.NotSupported(e.Path.Child("verbs"), v, supportedVerbs))
			return
		}
	}
}

func resourceRule(r *flowcontrolv1.ResourcePolicyRule, e rules.Errors) {
	verbs(r.Verbs, e)
	wildcard("apiGroups", r.APIGroups, e)
	wildcard("resources", r.Resources, e)
	if len(r.Namespaces) == 0 && r.ClusterScope {
		return
	}
	if wildcard("namespaces", r.Namespaces, e) {
		for i, n := range r.Namespaces {
			e.Field("namespaces").Item(i).Messages(n, rules.NamespaceName(n, false))
		}
	}
}

func nonResourceRule(r *flowcontrolv1.NonResourcePolicyRule, e rules.Errors) {
	verbs(r.Verbs, e)
	if wildcard("nonResourceURLs", r.NonResourceURLs, e) {
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
		return "must start with a slash"
	case strings.Contains(path, " "):
		return "must not contain spaces"
	case strings.Contains(path, "//"):
		return "must not contain empty segments"
	case stars > 1 || stars == 1 && !strings.HasSuffix(path, "/*"):
		return "* can only be the last segment"
	}
	return ""
}
