package rbac

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authz"
)

// rule parses "get,list apps/deployments,pods name1,name2" or "get /path": verbs, resources as
// [group/]resource[:subresource], names.
func rule(s string) rbacv1.PolicyRule {
	parts := strings.Fields(s)
	r := rbacv1.PolicyRule{Verbs: strings.Split(parts[0], ",")}
	if strings.HasPrefix(parts[1], "/") || parts[1] == "URL*" {
		r.NonResourceURLs = strings.Split(strings.TrimPrefix(parts[1], "URL"), ",")
		return r
	}
	groups := map[string]bool{}
	for _, what := range strings.Split(parts[1], ",") {
		group, name, ok := strings.Cut(what, "/")
		if !ok {
			group, name = "", what
		}
		if !groups[group] {
			groups[group] = true
			r.APIGroups = append(r.APIGroups, group)
		}
		r.Resources = append(r.Resources, strings.ReplaceAll(name, ":", "/"))
	}
	if len(parts) > 2 {
		r.ResourceNames = strings.Split(parts[2], ",")
	}
	return r
}

func rules(all ...string) []rbacv1.PolicyRule {
	var list []rbacv1.PolicyRule
	for _, s := range all {
		list = append(list, rule(s))
	}
	return list
}

func clusterRole(name string, all ...string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules(all...)}
}

func ref(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

// subjects parses "User:alice", "Group:devs", "ServiceAccount:ns/name".
func subjects(all ...string) []rbacv1.Subject {
	var list []rbacv1.Subject
	for _, s := range all {
		kind, name, _ := strings.Cut(s, ":")
		subject := rbacv1.Subject{Kind: kind, Name: name}
		if kind == rbacv1.ServiceAccountKind {
			if namespace, account, ok := strings.Cut(name, "/"); ok {
				subject.Namespace, subject.Name = namespace, account
			}
		}
		list = append(list, subject)
	}
	return list
}

func clusterBinding(name, role string, who ...string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref("ClusterRole", role), Subjects: subjects(who...)}
}

func roleBinding(namespace, name string, to rbacv1.RoleRef, who ...string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: to, Subjects: subjects(who...)}
}

func world() *Index {
	x := NewIndex()
	x.SetClusterRole(clusterRole("reader", "get,list pods,pods:log", "get /metrics,/api*"))
	x.SetClusterRole(clusterRole("scaler", "update */*:scale"))
	x.SetClusterRole(clusterRole("admin", "* */*", "* URL*"))
	x.SetRole(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}, Rules: rules("get secrets only", "create configmaps")})
	x.SetClusterRoleBinding(clusterBinding("readers", "reader", "Group:devs", "ServiceAccount:a/robot", "ServiceAccount:nowhere"))
	x.SetClusterRoleBinding(clusterBinding("scalers", "scaler", "User:sam"))
	x.SetClusterRoleBinding(clusterBinding("dangling", "missing", "User:dan"))
	x.SetRoleBinding(roleBinding("a", "ones", ref("Role", "one"), "User:alice", "ServiceAccount:robot"))
	x.SetRoleBinding(roleBinding("b", "admins", ref("ClusterRole", "admin"), "User:alice"))
	x.SetRoleBinding(roleBinding("b", "odd", ref("Gadget", "x"), "User:odd"))
	return x
}

// ask parses "alice,devs get b apps/deployments:scale name" or "alice get /path".
func ask(s string) *authz.Attributes {
	parts := strings.Fields(s)
	who := strings.Split(parts[0], ",")
	a := &authz.Attributes{User: &user.DefaultInfo{Name: who[0], Groups: who[1:]}, Verb: parts[1]}
	if strings.HasPrefix(parts[2], "/") {
		a.Path = parts[2]
		return a
	}
	a.IsResource, a.Namespace = true, strings.Trim(parts[2], "-")
	what := parts[3]
	if group, rest, ok := strings.Cut(what, "/"); ok {
		a.Group, what = group, rest
	}
	a.Resource, a.Subresource, _ = strings.Cut(what, ":")
	if len(parts) > 4 {
		a.Name = parts[4]
	}
	return a
}

func TestAuthorize(t *testing.T) {
	const robot = "system:serviceaccount:a:robot"
	x := world()
	for q, want := range map[string]string{
		"bob,devs get a pods":           `RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to Group "devs"`,
		"bob,x,devs list - pods":        `RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to Group "devs"`,
		robot + " get b pods:log":       `RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to ServiceAccount "robot/a"`,
		robot + " create a configmaps":  `RBAC: allowed by RoleBinding "ones/a" of Role "one" to ServiceAccount "robot/a"`,
		"alice get a secrets only":      `RBAC: allowed by RoleBinding "ones/a" of Role "one" to User "alice"`,
		"alice anything b any/thing:x":  `RBAC: allowed by RoleBinding "admins/b" of ClusterRole "admin" to User "alice"`,
		"sam update b apps/sets:scale":  `RBAC: allowed by ClusterRoleBinding "scalers" of ClusterRole "scaler" to User "sam"`,
		"bob,devs get /metrics":         `RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to Group "devs"`,
		"bob,devs get /apis/apps":       `RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to Group "devs"`,
		"bob get a pods":                "",
		"bob,devs delete a pods":        "",
		"bob,devs get a apps/pods":      "",
		"bob,devs get a pods:exec":      "",
		"bob,devs get /metrics/x":       "",
		"bob,devs post /metrics":        "",
		"alice get a secrets other":     "",
		"alice list a secrets":          "",
		"alice get - pods":              "",
		"alice get /anything":           "",
		"sam update b apps/sets:status": "",
		"sam update b apps/sets":        "",
		robot + " create b configmaps":  "",
		"dan get a pods":                `RBAC: clusterrole.rbac.authorization.k8s.io "missing" not found`,
		"odd get b pods":                `RBAC: unsupported role reference kind: "Gadget"`,
	} {
		decision, reason, err := x.Authorize(t.Context(), ask(q))
		if allowed := strings.Contains(want, "allowed"); (decision == authz.Allow) != allowed || err != nil || reason != want {
			t.Errorf("%s: %v %q, %v; want %q", q, decision, reason, err, want)
		}
	}
}

// A review may contain resource and subresource in one field, or slashes in odd places.
func TestResourcesWithSlashes(t *testing.T) {
	r := &role{rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods/log", "pods/", "a/b/c", "*/scale"}}}}
	for _, c := range []struct {
		resource, subresource string
		want                  bool
	}{
		{"pods", "log", true}, {"pods/log", "", true}, {"pods/", "", true}, {"a", "b/c", true}, {"a/b", "c", true}, {"x", "scale", true},
		{"pods", "", false}, {"log", "", false}, {"x/scale", "", false}, {"a", "b", false},
	} {
		a := &authz.Attributes{Verb: "get", IsResource: true, Resource: c.resource, Subresource: c.subresource}
		if got := r.allows(a); got != c.want {
			t.Errorf("%q %q: %v", c.resource, c.subresource, got)
		}
	}
}

func TestChanges(t *testing.T) {
	x := world()
	allowed := func(q string) bool {
		decision, _, _ := x.Authorize(t.Context(), ask(q))
		return decision == authz.Allow
	}
	for _, step := range []struct {
		name   string
		change func()
		q      string
		want   bool
	}{
		{"at first", func() {}, "bob,devs get a pods", true},
		{"the role gets other rules", func() { x.SetClusterRole(clusterRole("reader", "get services")) }, "bob,devs get a pods", false},
		{"which count", func() {}, "bob,devs get a services", true},
		{"the role goes", func() { x.DeleteClusterRole("reader") }, "bob,devs get a services", false},
		{"and comes back", func() { x.SetClusterRole(clusterRole("reader", "get pods")) }, "bob,devs get a pods", true},
		{"the binding is for others", func() { x.SetClusterRoleBinding(clusterBinding("readers", "reader", "Group:ops")) }, "bob,devs get a pods", false},
		{"who may", func() {}, "eve,ops get a pods", true},
		{"the binding goes", func() { x.DeleteClusterRoleBinding("readers") }, "eve,ops get a pods", false},
		{"a role of the same name elsewhere", func() { x.DeleteRole("b", "one") }, "alice create a configmaps", true},
		{"a role in a namespace goes", func() { x.DeleteRole("a", "one") }, "alice create a configmaps", false},
		{"the missing role appears", func() { x.SetClusterRole(clusterRole("missing", "get pods")) }, "dan get a pods", true},
		{"a role binding goes", func() { x.DeleteRoleBinding("b", "admins") }, "alice get b pods", false},
		{"going twice is nothing", func() { x.DeleteRoleBinding("b", "admins"); x.DeleteRole("a", "one") }, "alice get b pods", false},
	} {
		step.change()
		if got := allowed(step.q); got != step.want {
			t.Errorf("%s: %s: %v", step.name, step.q, got)
		}
	}
	for _, n := range []string{"readers", "scalers", "dangling"} {
		x.DeleteClusterRoleBinding(n)
	}
	for _, n := range []string{"reader", "scaler", "admin", "missing"} {
		x.DeleteClusterRole(n)
	}
	x.DeleteRoleBinding("a", "ones")
	x.DeleteRoleBinding("b", "odd")
	kept := x.subjects.Load()
	left := kept.grants.size() + kept.places.size()
	if left != 0 || len(x.roles) != 0 || len(x.bindings) != 0 {
		t.Errorf("left over: %d subjects, %d roles, %d bindings", left, len(x.roles), len(x.bindings))
	}
}

func TestRulesFor(t *testing.T) {
	x := world()
	x.SetClusterRoleBinding(clusterBinding("a-first", "scaler", "User:bob", "Group:devs"))
	x.SetRoleBinding(roleBinding("a", "z", ref("Role", "one"), "User:bob"))
	x.SetRoleBinding(roleBinding("a", "lost", ref("Role", "none"), "User:bob"))
	got, err := x.RulesFor(&user.DefaultInfo{Name: "bob", Groups: []string{"devs"}}, "a")
	want := rules("update */*:scale", "get,list pods,pods:log", "get /metrics,/api*", "get secrets only", "create configmaps")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if err == nil || !strings.Contains(err.Error(), `"none" not found`) {
		t.Errorf("error %v", err)
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		owned, wanted string
		want          bool
	}{
		{"get,list pods", "get pods", true},
		{"get pods", "get,list pods", false},
		{"* pods", "get,delete pods", true},
		{"get pods", "* pods", false},
		{"get */*", "get apps/deployments", true},
		{"get *", "get apps/deployments", false},
		{"get pods", "get *", false},
		{"get pods", "get pods one", true},
		{"get pods one,two", "get pods two", true},
		{"get pods one", "get pods two", false},
		{"get pods one", "get pods", false},
		{"get *:scale", "get apps:scale", true},
		{"get *:scale", "get apps", false},
		{"get *:scale", "get apps:status", false},
		{"get pods", "get pods:log", false},
		{"get pods|list pods", "get,list pods", true},
		{"get pods|get services", "get pods,services", true},
		{"get /api*", "get /apis/x", true},
		{"get /api", "get /apis", false},
		{"* URL*", "get /anything", true},
		{"get /a*", "get URL*", false},
		{"* */*", "get /x", false},
		{"* URL*", "get pods", false},
	} {
		owned := rules(strings.Split(c.owned, "|")...)
		if got := Covers(owned, rules(c.wanted)); got != c.want {
			t.Errorf("%q covers %q: %v", c.owned, c.wanted, got)
		}
		if got := len(Missing(owned, rules(c.wanted))) == 0; got != c.want {
			t.Errorf("%q misses of %q: %v", c.owned, c.wanted, got)
		}
	}
}

func TestConfirmNoEscalation(t *testing.T) {
	x := world()
	alice := &user.DefaultInfo{Name: "alice"}
	if err := x.ConfirmNoEscalation(t.Context(), alice, "b", rules("get pods", "* */*")); err != nil {
		t.Errorf("what alice has: %v", err)
	}
	err := x.ConfirmNoEscalation(t.Context(), alice, "a", rules("get,list pods", "get /x", "create configmaps"))
	want := `user "alice" (groups=[]) is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}
{NonResourceURLs:["/x"], Verbs:["get"]}`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// The index must agree with a plain search through all bindings, whatever the order of changes; the race detector
// checks concurrent readers.
func TestAgainstSearch(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	x := NewIndex()
	roles := map[string][]rbacv1.PolicyRule{}
	bindings := map[string]*rbacv1.RoleBinding{}
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	var readers sync.WaitGroup
	stop := make(chan struct{})
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _, _ = x.Authorize(t.Context(), ask("u1,g1 get n1 pods"))
			}
		}
	})
	for range 2000 {
		namespace, name := pick("", "n1", "n2"), pick("x", "y", "z")
		key := namespace + "/" + name
		switch r.IntN(4) {
		case 0:
			rules := rules(pick("get", "*", "list") + " " + pick("pods", "pods:log", "*/*", "*:log"))
			roles[key] = rules
			x.setRole(nameOf(namespace, name), rules)
		case 1:
			delete(roles, key)
			x.deleteRole(nameOf(namespace, name))
		case 2:
			kind := pick("ClusterRole", "Role")
			b := roleBinding(namespace, name, ref(kind, pick("x", "y", "z")), pick("User:u1", "Group:g1", "ServiceAccount:sa", "ServiceAccount:n2/sa"), pick("User:u2", "Group:g1"))
			bindings[key] = b
			x.setBinding(nameOf(namespace, name), b.RoleRef, b.Subjects)
		case 3:
			delete(bindings, key)
			x.deleteBinding(nameOf(namespace, name))
		}
		a := ask(fmt.Sprintf("%s,%s %s %s %s", pick("u1", "u2", "system:serviceaccount:n1:sa", "system:serviceaccount:n2:sa"), pick("g1", "g2"),
			pick("get", "list"), pick("-", "n1", "n2"), pick("pods", "pods:log", "services:log")))
		got, _, _ := x.Authorize(t.Context(), a)
		if want := search(roles, bindings, a); (got == authz.Allow) != want {
			t.Fatalf("seed %d: %+v by %v: %v, want %v", seed, a, a.User, got, want)
		}
	}
	close(stop)
	readers.Wait()
}

func nameOf(namespace, of string) name { return name{namespace, of} }

func search(roles map[string][]rbacv1.PolicyRule, bindings map[string]*rbacv1.RoleBinding, a *authz.Attributes) bool {
	for _, b := range bindings {
		if b.Namespace != "" && b.Namespace != a.Namespace {
			continue
		}
		applies := false
		for _, s := range b.Subjects {
			switch s.Kind {
			case "User":
				applies = applies || s.Name == a.User.GetName()
			case "Group":
				applies = applies || s.Name == a.User.GetGroups()[0]
			case "ServiceAccount":
				namespace := s.Namespace
				if namespace == "" {
					namespace = b.Namespace
				}
				applies = applies || namespace != "" && a.User.GetName() == "system:serviceaccount:"+namespace+":"+s.Name
			}
		}
		key := "/" + b.RoleRef.Name
		if b.RoleRef.Kind == "Role" {
			if b.Namespace == "" {
				continue
			}
			key = b.Namespace + key
		}
		for _, rule := range roles[key] {
			combined := a.Resource
			if a.Subresource != "" {
				combined += "/" + a.Subresource
			}
			if applies && hasOrAll(rule.Verbs, a.Verb) && hasOrAll(rule.APIGroups, a.Group) &&
				(hasOrAll(rule.Resources, combined) || a.Subresource != "" && hasOrAll(rule.Resources, "*/"+a.Subresource)) {
				return true
			}
		}
	}
	return false
}

func BenchmarkAuthorize(b *testing.B) {
	for _, n := range []int{50, 5000} {
		x := world()
		for i := range n {
			namespace := fmt.Sprintf("ns-%d", i)
			x.SetRole(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "r"}, Rules: rules("get,list,watch pods,services,configmaps", "* apps/deployments")})
			x.SetRoleBinding(roleBinding(namespace, "b", ref("Role", "r"), fmt.Sprintf("ServiceAccount:%s/default", namespace), "Group:team"))
		}
		groups := []string{"system:serviceaccounts", "system:serviceaccounts:ns-7", "system:authenticated"}
		for _, q := range []struct {
			name string
			a    *authz.Attributes
		}{
			{"allowed", &authz.Attributes{User: &user.DefaultInfo{Name: "system:serviceaccount:ns-7:default", Groups: groups}, Verb: "get", IsResource: true, Namespace: "ns-7", Resource: "pods", Name: "x"}},
			{"refused", &authz.Attributes{User: &user.DefaultInfo{Name: "system:serviceaccount:ns-7:default", Groups: groups}, Verb: "get", IsResource: true, Namespace: "ns-8", Resource: "secrets", Name: "x"}},
		} {
			b.Run(fmt.Sprintf("%s/%d bindings", q.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if decision, _, _ := x.Authorize(b.Context(), q.a); (decision == authz.Allow) != (q.name == "allowed") {
						b.Fatal(decision)
					}
				}
			})
		}
	}
}

func BenchmarkSetRoleBinding(b *testing.B) {
	x := NewIndex()
	for i := range 5000 {
		x.SetRoleBinding(roleBinding(fmt.Sprintf("ns-%d", i), "b", ref("ClusterRole", "r"), "User:u"))
	}
	changed := roleBinding("ns-7", "b", ref("ClusterRole", "r"), "User:v")
	b.ReportAllocs()
	for b.Loop() {
		x.SetRoleBinding(changed)
	}
}
