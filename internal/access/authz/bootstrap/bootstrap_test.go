package bootstrap

import (
	"reflect"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/access/authz/rbac"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

func mustPolicy(t testing.TB) *Objects {
	t.Helper()
	o, err := Policy(features.Set{}.Enabled)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestPolicyIsComplete(t *testing.T) {
	o := mustPolicy(t)
	got := []int{len(o.ClusterRoles), len(o.ClusterRoleBindings), len(o.Roles), len(o.RoleBindings)}
	if want := []int{73, 54, 7, 7}; !reflect.DeepEqual(got, want) {
		t.Errorf("%d objects of each kind, want %d", got, want)
	}
	roles := map[string]bool{}
	for _, r := range o.ClusterRoles {
		roles[r.Name] = true
		if r.Annotations[rbacv1.AutoUpdateAnnotationKey] != "true" || r.Labels["kubernetes.io/bootstrapping"] != "rbac-defaults" {
			t.Errorf("%s: %v %v", r.Name, r.Annotations, r.Labels)
		}
	}
	for _, b := range o.ClusterRoleBindings {
		if !roles[b.RoleRef.Name] {
			t.Errorf("binding %s refers to %s, which is not there", b.Name, b.RoleRef.Name)
		}
	}
}

func TestPolicyAuthorizes(t *testing.T) {
	o := mustPolicy(t)
	x := rbac.NewIndex()
	for _, r := range o.ClusterRoles {
		rules, err := Aggregate(r, o.ClusterRoles)
		if err != nil {
			t.Fatal(err)
		}
		r.Rules = rules
		x.SetClusterRole(r)
	}
	for _, b := range o.ClusterRoleBindings {
		x.SetClusterRoleBinding(b)
	}
	for _, r := range o.Roles {
		x.SetRole(r)
	}
	for _, b := range o.RoleBindings {
		x.SetRoleBinding(b)
	}
	for _, c := range []struct {
		user, group, verb, namespace, resource, path string
		want                                         bool
	}{
		{"admin", "system:masters", "delete", "x", "pods", "", true},
		{"nobody", "system:authenticated", "get", "x", "pods", "", false},
		{"nobody", "system:authenticated", "get", "", "", "/api/v1", true},
		{"system:anonymous", "system:unauthenticated", "get", "", "", "/healthz", true},
		{"system:anonymous", "system:unauthenticated", "get", "", "", "/api", false},
		{"system:kube-scheduler", "", "create", "x", "events", "", true},
		{"system:kube-scheduler", "", "create", "x", "secrets", "", false},
		{"system:kube-controller-manager", "", "get", "kube-system", "configmaps", "", true},
		{"system:kube-controller-manager", "", "delete", "kube-system", "configmaps", "", false},
	} {
		a := &authz.Attributes{
			User: &user.DefaultInfo{Name: c.user, Groups: []string{c.group}}, Verb: c.verb,
			IsResource: c.resource != "", Namespace: c.namespace, Resource: c.resource, Path: c.path,
		}
		decision, reason, err := x.Authorize(t.Context(), a)
		if err != nil || (decision == authz.Allow) != c.want {
			t.Errorf("%+v: %v %q, %v", c, decision, reason, err)
		}
	}
	edit, err := x.RoleRules(rbacv1.RoleRef{Kind: "ClusterRole", Name: "edit"}, "")
	if err != nil || len(edit) < 10 {
		t.Errorf("edit has gathered %d rules, %v", len(edit), err)
	}
}

func find[T interface{ GetName() string }](t *testing.T, all []T, name string) T {
	t.Helper()
	for _, obj := range all {
		if obj.GetName() == name {
			return obj
		}
	}
	t.Fatalf("no %s", name)
	panic("unreachable")
}

func TestReconcileRole(t *testing.T) {
	wanted := find(t, mustPolicy(t).ClusterRoles, "system:node-proxier")
	admin := find(t, mustPolicy(t).ClusterRoles, "admin")
	for _, c := range []struct {
		name   string
		wanted *rbacv1.ClusterRole
		change func(*rbacv1.ClusterRole) *rbacv1.ClusterRole
		want   Action
		check  func(*rbacv1.ClusterRole) bool
	}{
		{"missing", wanted, func(*rbacv1.ClusterRole) *rbacv1.ClusterRole { return nil }, Create, nil},
		{"as it should be", wanted, func(r *rbacv1.ClusterRole) *rbacv1.ClusterRole { return r }, Nothing, nil},
		{"more rules", wanted, func(r *rbacv1.ClusterRole) *rbacv1.ClusterRole {
			r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{"x"}, APIGroups: []string{"y"}, Resources: []string{"z"}})
			return r
		}, Nothing, func(r *rbacv1.ClusterRole) bool { return len(r.Rules) == len(wanted.Rules)+1 }},
		{"a rule less", wanted, func(r *rbacv1.ClusterRole) *rbacv1.ClusterRole { r.Rules = r.Rules[1:]; return r }, Update,
			func(r *rbacv1.ClusterRole) bool { return rbac.Covers(r.Rules, wanted.Rules) }},
		{"a rule less, protected", wanted, func(r *rbacv1.ClusterRole) *rbacv1.ClusterRole {
			r.Rules = nil
			r.Annotations[rbacv1.AutoUpdateAnnotationKey] = "false"
			return r
		}, Nothing, func(r *rbacv1.ClusterRole) bool { return r.Rules == nil }},
		{"no labels", wanted, func(r *rbacv1.ClusterRole) *rbacv1.ClusterRole { r.Labels = nil; return r }, Update,
			func(r *rbacv1.ClusterRole) bool { return reflect.DeepEqual(r.Labels, wanted.Labels) }},
		{"another value of a label", wanted, func(r *rbacv1.ClusterRole) *rbacv1.ClusterRole {
			r.Labels["kubernetes.io/bootstrapping"] = "mine"
			return r
		}, Nothing, nil},
		{"aggregated, should not be", wanted, func(r *rbacv1.ClusterRole) *rbacv1.ClusterRole {
			r.AggregationRule = &rbacv1.AggregationRule{}
			return r
		}, Update, func(r *rbacv1.ClusterRole) bool { return r.AggregationRule == nil }},
		{"should be aggregated", admin, func(r *rbacv1.ClusterRole) *rbacv1.ClusterRole { r.AggregationRule = nil; return r }, Update,
			func(r *rbacv1.ClusterRole) bool { return reflect.DeepEqual(r.AggregationRule, admin.AggregationRule) }},
		{"aggregated and filled", admin, func(r *rbacv1.ClusterRole) *rbacv1.ClusterRole { r.Rules = wanted.Rules; return r }, Nothing, nil},
	} {
		before := c.wanted.DeepCopy()
		existing := c.change(c.wanted.DeepCopy())
		got, action := ReconcileClusterRole(existing, c.wanted)
		if action != c.want || c.check != nil && !c.check(got) {
			t.Errorf("%s: %v, %+v", c.name, action, got)
		}
		if !reflect.DeepEqual(c.wanted, before) {
			t.Errorf("%s: what is wanted was changed", c.name)
		}
		if _, again := ReconcileClusterRole(got, c.wanted); again != Nothing {
			t.Errorf("%s: not done after once: %v", c.name, again)
		}
	}
}

func TestReconcileBinding(t *testing.T) {
	wanted := find(t, mustPolicy(t).ClusterRoleBindings, "system:public-info-viewer")
	for _, c := range []struct {
		name     string
		change   func(*rbacv1.ClusterRoleBinding)
		want     Action
		subjects int
	}{
		{"as it should be", func(*rbacv1.ClusterRoleBinding) {}, Nothing, 2},
		{"one less", func(b *rbacv1.ClusterRoleBinding) { b.Subjects = b.Subjects[1:] }, Update, 2},
		{"one more", func(b *rbacv1.ClusterRoleBinding) { b.Subjects = append(b.Subjects, rbacv1.Subject{Name: "x"}) }, Nothing, 3},
		{"another role", func(b *rbacv1.ClusterRoleBinding) { b.RoleRef.Name = "x" }, Recreate, 2},
	} {
		existing := wanted.DeepCopy()
		c.change(existing)
		got, action := ReconcileClusterRoleBinding(existing, wanted)
		if action != c.want || len(got.Subjects) != c.subjects {
			t.Errorf("%s: %v, %+v", c.name, action, got)
		}
	}
	if _, action := ReconcileClusterRoleBinding(nil, wanted); action != Create {
		t.Errorf("missing: %v", action)
	}
}

func BenchmarkPolicy(b *testing.B) {
	for b.Loop() {
		mustPolicy(b)
	}
}
