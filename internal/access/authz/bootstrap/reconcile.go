package bootstrap

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/access/authz/rbac"
)

// Action is the write that brings an object to its wanted state.
type Action int

// Actions.
const (
	Nothing Action = iota
	Create
	Update
	// Recreate deletes and creates the object: the role that a binding refers to is immutable.
	Recreate
)

// protected reports whether an administrator has disabled reconciliation of an object.
func protected(obj metav1.Object) bool {
	return obj.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] == "false"
}

// ReconcileClusterRole returns what an existing role (nil if there is none) must become to have at least the wanted
// rules. Extra rules stay.
func ReconcileClusterRole(existing, wanted *rbacv1.ClusterRole) (*rbacv1.ClusterRole, Action) {
	if existing == nil {
		return wanted, Create
	}
	if protected(existing) {
		return existing, Nothing
	}
	out := existing.DeepCopy()
	changed := mergeMeta(out, wanted)
	changed = addRules(&out.Rules, wanted.Rules) || changed
	changed = aggregate(out, wanted) || changed
	return out, updateIf(changed)
}

// ReconcileRole is ReconcileClusterRole for a Role.
func ReconcileRole(existing, wanted *rbacv1.Role) (*rbacv1.Role, Action) {
	if existing == nil {
		return wanted, Create
	}
	if protected(existing) {
		return existing, Nothing
	}
	out := existing.DeepCopy()
	changed := mergeMeta(out, wanted)
	changed = addRules(&out.Rules, wanted.Rules) || changed
	return out, updateIf(changed)
}

// ReconcileClusterRoleBinding returns what an existing binding (nil if there is none) must become to bind at least the
// wanted subjects to the wanted role.
func ReconcileClusterRoleBinding(existing, wanted *rbacv1.ClusterRoleBinding) (*rbacv1.ClusterRoleBinding, Action) {
	return reconcileBinding(existing, wanted, func(b *rbacv1.ClusterRoleBinding) (rbacv1.RoleRef, *[]rbacv1.Subject) {
		return b.RoleRef, &b.Subjects
	})
}

// ReconcileRoleBinding is ReconcileClusterRoleBinding for a RoleBinding.
func ReconcileRoleBinding(existing, wanted *rbacv1.RoleBinding) (*rbacv1.RoleBinding, Action) {
	return reconcileBinding(existing, wanted, func(b *rbacv1.RoleBinding) (rbacv1.RoleRef, *[]rbacv1.Subject) {
		return b.RoleRef, &b.Subjects
	})
}

// binding is a pointer to either kind of binding.
type binding[T any] interface {
	*T
	metav1.Object
	DeepCopy() *T
}

func reconcileBinding[T any, B binding[T]](existing, wanted B, parts func(B) (rbacv1.RoleRef, *[]rbacv1.Subject)) (B, Action) {
	if existing == nil {
		return wanted, Create
	}
	if protected(existing) {
		return existing, Nothing
	}
	var out B = existing.DeepCopy()
	role, subjects := parts(out)
	wantedRole, wantedSubjects := parts(wanted)
	if role != wantedRole {
		return wanted, Recreate
	}
	changed := mergeMeta(out, wanted)
	changed = addSubjects(subjects, *wantedSubjects) || changed
	return out, updateIf(changed)
}

func updateIf(changed bool) Action {
	if changed {
		return Update
	}
	return Nothing
}

// mergeMeta adds the wanted labels and annotations that obj does not have; existing values stay.
func mergeMeta(obj, wanted metav1.Object) (changed bool) {
	merge := func(have, want map[string]string) map[string]string {
		all := maps.Clone(want)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, have)
		if len(all) != len(have) {
			changed = true
		}
		return all
	}
	obj.SetLabels(merge(obj.GetLabels(), wanted.GetLabels()))
	obj.SetAnnotations(merge(obj.GetAnnotations(), wanted.GetAnnotations()))
	return changed
}

func addRules(have *[]rbacv1.PolicyRule, want []rbacv1.PolicyRule) (changed bool) {
	missing := rbac.Missing(*have, want)
	*have = append(*have, missing...)
	return len(missing) > 0
}

func addSubjects(have *[]rbacv1.Subject, want []rbacv1.Subject) (changed bool) {
	for _, s := range want {
		if !slices.Contains(*have, s) {
			*have = append(*have, s)
			changed = true
		}
	}
	return changed
}

// aggregate adds what the existing role's aggregation rule lacks. It leaves a role without a wanted aggregation rule
// alone.
func aggregate(out, wanted *rbacv1.ClusterRole) (changed bool) {
	if wanted.AggregationRule == nil {
		changed = out.AggregationRule != nil
		out.AggregationRule = nil
		return changed
	}
	for _, selector := range wanted.AggregationRule.ClusterRoleSelectors {
		if out.AggregationRule == nil {
			out.AggregationRule = &rbacv1.AggregationRule{}
		}
		have := &out.AggregationRule.ClusterRoleSelectors
		if !slices.ContainsFunc(*have, func(s metav1.LabelSelector) bool { return equality.Semantic.DeepEqual(s, selector) }) {
			*have = append(*have, selector)
			changed = true
		}
	}
	return changed
}
