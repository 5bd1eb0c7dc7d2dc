package bootstrap

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Aggregate returns the rules that an aggregated role collects from the roles its selectors match, in the order of
// their names, without duplicates. A role without an aggregation rule keeps its own rules.
func Aggregate(role *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	if role.AggregationRule == nil {
		return role.Rules, nil
	}
	sorted := slices.SortedFunc(slices.Values(all), func(a, b *rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
	selectors, err := Selectors(role)
	if err != nil {
		return nil, err
	}
	var rules []rbacv1.PolicyRule
	for _, selector := range selectors {
		for _, from := range sorted {
			if from.Name != role.Name && selector.Matches(labels.Set(from.Labels)) {
				rules = appendNew(rules, from.Rules)
			}
		}
	}
	return rules, nil
}

// Selectors returns what a role's aggregation rule selects by; none for a role without one.
func Selectors(role *rbacv1.ClusterRole) ([]labels.Selector, error) {
	if role.AggregationRule == nil {
		return nil, nil
	}
	var out []labels.Selector
	for i := range role.AggregationRule.ClusterRoleSelectors {
		s, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// appendNew appends rules that are not yet among others. Each is compared with all others: by reflection, that allocated a twelfth of all that the
// start of a control plane does.
func appendNew(rules, more []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	for i := range more {
		if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return sameRule(&r, &more[i]) }) {
			rules = append(rules, more[i])
		}
	}
	return rules
}

// sameRule compares as equality.Semantic does: nil is an empty list.
func sameRule(a, b *rbacv1.PolicyRule) bool {
	return slices.Equal(a.Verbs, b.Verbs) && slices.Equal(a.APIGroups, b.APIGroups) && slices.Equal(a.Resources, b.Resources) &&
		slices.Equal(a.ResourceNames, b.ResourceNames) && slices.Equal(a.NonResourceURLs, b.NonResourceURLs)
}
