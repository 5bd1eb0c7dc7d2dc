package rules

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// NodeSelector validates a node selector. allowInvalidValues accepts invalid label values.
func NodeSelector(s *corev1.NodeSelector, allowInvalidValues bool, e Errors) {
	terms := e.Field("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		terms.Required("must have at least one node selector term")
	}
	for i := range s.NodeSelectorTerms {
		NodeSelectorTerm(&s.NodeSelectorTerms[i], allowInvalidValues, terms.Item(i))
	}
}

// NodeSelectorTerm validates one term.
func NodeSelectorTerm(t *corev1.NodeSelectorTerm, allowInvalidValues bool, e Errors) {
	for i := range t.MatchExpressions {
		nodeLabelRequirement(&t.MatchExpressions[i], allowInvalidValues, e.Field("matchExpressions").Item(i))
	}
	for i := range t.MatchFields {
		nodeFieldRequirement(&t.MatchFields[i], e.Field("matchFields").Item(i))
	}
}

func nodeLabelRequirement(r *corev1.NodeSelectorRequirement, allowInvalidValues bool, e Errors) {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			e.Field("values").Required("must be specified when `operator` is 'In' or 'NotIn'")
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			e.Field("values").Forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			e.Field("values").Required("must be specified single value when `operator` is 'Lt' or 'Gt'")
		}
	default:
		e.Field("operator").Invalid(r.Operator, "not a valid selector operator")
	}
	e.LabelKey("key", r.Key)
	if allowInvalidValues {
		return
	}
	for i, v := range r.Values {
		if m := validation.IsValidLabelValue(v); len(m) > 0 {
			e.Field("values").Item(i).Messages(v, m)
		}
	}
}

// nodeFieldRequirement validates a field requirement; only metadata.name is allowed.
func nodeFieldRequirement(r *corev1.NodeSelectorRequirement, e Errors) {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			e.Field("values").Required("must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
		}
	default:
		e.Field("operator").Invalid(r.Operator, "not a valid selector operator")
	}
	if r.Key != metav1.ObjectNameField {
		e.Field("key").Invalid(r.Key, "not a valid field selector key")
		return
	}
	for i, v := range r.Values {
		e.Field("values").Item(i).Messages(v, Subdomain(v, false))
	}
}

// InvalidNodeSelectorValues reports whether a selector, which may be nil, has values that would be rejected in a new
// one.
func InvalidNodeSelectorValues(s *corev1.NodeSelector) bool {
	if s == nil {
		return false
	}
	for _, t := range s.NodeSelectorTerms {
		for _, r := range t.MatchExpressions {
			for _, v := range r.Values {
				if len(validation.IsValidLabelValue(v)) > 0 {
					return true
				}
			}
		}
	}
	return false
}

// TopologySelectorTerm validates one term of a storage class's allowed topologies, and returns the values by key.
func TopologySelectorTerm(t *corev1.TopologySelectorTerm, e Errors) map[string][]string {
	values := map[string][]string{}
	for i, r := range t.MatchLabelExpressions {
		item := e.Field("matchLabelExpressions").Item(i)
		if len(r.Values) == 0 {
			item.Field("values").Required("")
		}
		for j, v := range r.Values {
			if slices.Contains(r.Values[:j], v) {
				item.Field("values").Item(j).Duplicate(v)
			}
		}
		item.LabelKey("key", r.Key)
		if _, found := values[r.Key]; found {
			item.Field("key").Duplicate(r.Key)
		}
		values[r.Key] = r.Values
	}
	return values
}

// TaintEffects are the effects of taints.
var TaintEffects = []corev1.TaintEffect{
	corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
}
