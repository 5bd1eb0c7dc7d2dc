package rbac

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authz"
)

func TestExplain(t *testing.T) {
	x := NewIndex()
	role := func(name string, rules ...rbacv1.PolicyRule) {
		x.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	}
	bind := func(namespace, name, role, user string) {
		x.SetRoleBinding(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: user}}})
	}
	rule := func(verbs, resources string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: []string{""}, Resources: strings.Split(resources, ","), ResourceNames: names}
	}
	role("reader", rule("get,list", "pods"), rule("get", "configmaps", "one"))
	role("writer", rule("create,delete", "pods"))
	role("scaler", rule("update", "*/scale"))
	role("paths", rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}})
	bind("n", "alice-reads", "reader", "alice")
	bind("n", "alice-lost", "missing", "alice")
	bind("n", "bob-writes", "writer", "bob")
	bind("other", "alice-writes", "writer", "alice")
	bind("n", "alice-metrics", "paths", "alice")
	resource := func(verb, resource, sub, name string) *authz.Attributes {
		return &authz.Attributes{User: &user.DefaultInfo{Name: "alice"}, IsResource: true, Verb: verb, Resource: resource, Subresource: sub, Name: name, Namespace: "n", Version: "v1"}
	}
	for name, c := range map[string]struct {
		a    *authz.Attributes
		want string
	}{
		"allowed": {resource("get", "pods", "", "p"), "alice-reads allows by get,list; alice-lost lacks role; alice-metrics lacks rule"},
		"verb":    {resource("delete", "pods", "", "p"), "alice-reads lacks verb; alice-lost lacks role; alice-metrics lacks rule; would bob-writes"},
		"name":    {resource("get", "configmaps", "", "two"), "alice-reads lacks name; alice-lost lacks role; alice-metrics lacks rule"},
		"scale":   {resource("update", "deployments", "scale", "d"), "alice-reads lacks resource verb; alice-lost lacks role; alice-metrics lacks rule; role scaler"},
	} {
		t.Run(name, func(t *testing.T) {
			e := x.Explain(c.a)
			var got []string
			allowed := false
			for _, b := range e.Considered {
				if b.Allows {
					allowed = true
					got = append(got, fmt.Sprintf("%s allows by %s", b.Name, strings.Join(b.Rule.Verbs, ",")))
					continue
				}
				got = append(got, b.Name+" lacks "+strings.Join(b.Missing, " "))
			}
			for _, b := range e.Would {
				got = append(got, "would "+b.Name)
			}
			for _, r := range e.Roles {
				if !allowed {
					got = append(got, "role "+r.Name)
				}
			}
			if s := strings.Join(got, "; "); s != c.want {
				t.Errorf("got  %s\nwant %s", s, c.want)
			}
			if d, _, _ := x.Authorize(t.Context(), c.a); (d == authz.Allow) != allowed {
				t.Errorf("the explanation says %t, the decision is %v", allowed, d)
			}
		})
	}
}
