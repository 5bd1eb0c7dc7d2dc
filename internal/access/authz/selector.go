package authz

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// labelSelector returns a review's label selector in the form of a query parameter.
func labelSelector(in *authorizationv1.LabelSelectorAttributes) (string, fault) {
	switch {
	case in == nil:
		return "", understood
	case len(in.Requirements) == 0:
		if _, err := labels.Parse(in.RawSelector); err != nil {
			return "", ignored
		}
		return in.RawSelector, understood
	}
	var good []labels.Requirement
	for _, r := range in.Requirements {
		requirement, err := labels.NewRequirement(r.Key, labelOperator(r.Operator), r.Values)
		if err != nil {
			continue
		}
		good = append(good, *requirement)
	}
	all := labels.NewSelector().Add(good...) // in one call: each call copies and sorts
	return all.String(), faultOf(len(good), len(in.Requirements))
}

func labelOperator(op metav1.LabelSelectorOperator) selection.Operator {
	switch op {
	case metav1.LabelSelectorOpIn:
		return selection.In
	case metav1.LabelSelectorOpNotIn:
		return selection.NotIn
	case metav1.LabelSelectorOpExists:
		return selection.Exists
	case metav1.LabelSelectorOpDoesNotExist:
		return selection.DoesNotExist
	}
	return "" // not a valid requirement
}

// fieldSelector returns a review's field selector in the form of a query parameter. Field selectors support only
// equality.
func fieldSelector(in *authorizationv1.FieldSelectorAttributes) (string, fault) {
	switch {
	case in == nil:
		return "", understood
	case len(in.Requirements) == 0:
		if _, err := fields.ParseSelector(in.RawSelector); err != nil {
			return "", ignored
		}
		return in.RawSelector, understood
	}
	var good []fields.Selector
	for _, r := range in.Requirements {
		switch {
		case len(r.Values) != 1:
		case r.Operator == metav1.FieldSelectorOpIn:
			good = append(good, fields.OneTermEqualSelector(r.Key, r.Values[0]))
		case r.Operator == metav1.FieldSelectorOpNotIn:
			good = append(good, fields.OneTermNotEqualSelector(r.Key, r.Values[0]))
		}
	}
	return fields.AndSelectors(good...).String(), faultOf(len(good), len(in.Requirements))
}

func faultOf(good, all int) fault {
	switch good {
	case all:
		return understood
	case 0:
		return ignored
	}
	return partlyIgnored
}
