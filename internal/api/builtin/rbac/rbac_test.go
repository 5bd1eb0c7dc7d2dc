package rbac

import (
	"context"
	"errors"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
)

// readsPods returns an authorizer that allows all users to read pods, and no more.
func readsPods(escalate, bind bool) Deps {
	return Deps{
		MayEscalate: func(context.Context, string, string, string) bool { return escalate },
		MayBind:     func(context.Context, rbacv1.RoleRef, string) bool { return bind },
		ConfirmNoEscalation: func(_ context.Context, _ string, rules []rbacv1.PolicyRule) error {
			for _, r := range rules {
				for _, v := range r.Verbs {
					if v != "get" {
						return errors.New("you may not " + v)
					}
				}
			}
			return nil
		},
		RulesOf: func(_ context.Context, ref rbacv1.RoleRef, _ string) ([]rbacv1.PolicyRule, error) {
			return []rbacv1.PolicyRule{{Verbs: []string{ref.Name}}}, nil
		},
	}
}

func resource(t *testing.T, d Deps, plural string) *engine.Resource {
	t.Helper()
	for _, r := range Resources(d) {
		if r.Plural == plural {
			return r
		}
	}
	t.Fatal(plural)
	return nil
}

func TestEscalation(t *testing.T) {
	role := func(verb string) *rbacv1.Role {
		return &rbacv1.Role{Rules: []rbacv1.PolicyRule{{Verbs: []string{verb}}}}
	}
	binding := func(name string) *rbacv1.RoleBinding { return &rbacv1.RoleBinding{RoleRef: rbacv1.RoleRef{Name: name}} }
	master := request.WithUser(context.Background(), &user.DefaultInfo{Groups: []string{user.SystemPrivilegedGroup}})
	tests := []struct {
		name   string
		ctx    context.Context
		deps   Deps
		plural string
		obj    engine.Object
		ok     bool
	}{
		{"own rights", rulestest.Context(), readsPods(false, false), "roles", role("get"), true},
		{"more", rulestest.Context(), readsPods(false, false), "roles", role("delete"), false},
		{"more, by permission", rulestest.Context(), readsPods(true, false), "roles", role("delete"), true},
		{"more, as a master", master, readsPods(false, false), "roles", role("delete"), true},
		{"bind own", rulestest.Context(), readsPods(false, false), "rolebindings", binding("get"), true},
		{"bind more", rulestest.Context(), readsPods(false, false), "rolebindings", binding("delete"), false},
		{"bind more, by permission", rulestest.Context(), readsPods(false, true), "rolebindings", binding("delete"), true},
		{"aggregation", rulestest.Context(), readsPods(false, false), "clusterroles",
			&rbacv1.ClusterRole{AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: make([]metav1.LabelSelector, 1)}}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := resource(t, test.deps, test.plural).Rules.BeginCreate(test.ctx, test.obj, false)
			if (err == nil) != test.ok {
				t.Errorf("error %v", err)
			}
			if err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("not forbidden: %v", err)
			}
		})
	}
}

// The garbage collector may remove owner references from objects that it may not write otherwise.
func TestCollectorUpdates(t *testing.T) {
	r := resource(t, readsPods(false, false), "roles")
	old := &rbacv1.Role{Rules: []rbacv1.PolicyRule{{Verbs: []string{"delete"}}}}
	old.Finalizers = []string{"a/b"}
	for _, test := range []struct {
		name string
		edit func(*rbacv1.Role)
		ok   bool
	}{
		{"finalizers", func(r *rbacv1.Role) { r.Finalizers = nil }, true},
		{"labels", func(r *rbacv1.Role) { r.Labels = map[string]string{"a": "b"} }, false},
	} {
		obj := old.DeepCopy()
		test.edit(obj)
		_, err := r.Rules.BeginUpdate(rulestest.Context(), obj, old, false)
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestValidate(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "rolebindings", `
metadata: {name: b}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: jane}]
`)
	k.Create(t, []rulestest.Case{
		{Name: "kind", Edit: `{roleRef: {kind: Foo}}`, Want: []string{"roleRef.kind NotSupported"}},
		{Name: "subject", Edit: `{subjects: [{kind: ServiceAccount, name: a_b}]}`,
			Want: []string{"subjects[0].name Invalid"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "role", Edit: `{roleRef: {name: other}}`, Want: []string{"roleRef Invalid"}},
		{Name: "subjects", Edit: `{subjects: []}`},
	})
}

// Who may bind all roles may not bind what is no role: that it is none is said before the binding is validated, as kube-apiserver does.
func TestBindsRolesOnly(t *testing.T) {
	d := By(func(context.Context, *request.Info) error { return nil }, nil)
	for kind, may := range map[string]bool{"Role": true, "ClusterRole": true, "": false, "Gadget": false} {
		if got := d.MayBind(t.Context(), rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: "r"}, "default"); got != may {
			t.Errorf("%q: %v", kind, got)
		}
	}
}
