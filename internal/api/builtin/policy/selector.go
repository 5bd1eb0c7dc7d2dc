package policy

import (
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// emptySelectorLabel is a label that no pod has. An empty selector selects no pods in v1beta1 and all pods in v1: a requirement of this
// label says in each of them what an empty selector says in the other.
const emptySelectorLabel = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

func requirement(operator metav1.LabelSelectorOperator) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: emptySelectorLabel, Operator: operator}}}
}

// readBeta makes the selector of v1 out of that of v1beta1.
func readBeta(b *policyv1.PodDisruptionBudget) {
	switch s := b.Spec.Selector; {
	case apiequality.Semantic.DeepEqual(s, &metav1.LabelSelector{}):
		b.Spec.Selector = requirement(metav1.LabelSelectorOpExists)
	case apiequality.Semantic.DeepEqual(s, requirement(metav1.LabelSelectorOpDoesNotExist)):
		b.Spec.Selector = &metav1.LabelSelector{}
	}
}

// stripReserved takes the label out of every selector but the one that selects no pods, so that it means nothing beside others.
func stripReserved(b *policyv1.PodDisruptionBudget) {
	s := b.Spec.Selector
	if s == nil || apiequality.Semantic.DeepEqual(s, requirement(metav1.LabelSelectorOpExists)) {
		return
	}
	s.MatchExpressions = slices.DeleteFunc(s.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == emptySelectorLabel })
}
