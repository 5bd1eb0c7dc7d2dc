package matrix

import (
	"fmt"
	"strings"
)

// user is somebody with one right.
type user struct {
	name string
	// as is the name by which the servers know the user, if it is another.
	as     string
	groups []string
	// rules in a namespace, or in the cluster if it is empty.
	namespace string
	rules     []any
}

func rule(verbs, groups, resources string, names ...string) map[string]any {
	r := map[string]any{"verbs": strings.Split(verbs, ","), "apiGroups": strings.Split(groups, ","), "resources": strings.Split(resources, ",")}
	if len(names) > 0 {
		r["resourceNames"] = names
	}
	return r
}

// users are all who ask, beside nobody in particular, who has no token.
func users() []user {
	one := func(r ...any) []any { return r }
	out := []user{
		{name: "admin", groups: []string{"system:masters"}},
		{name: "nobody"},
		{name: "node", as: "system:node:a", groups: []string{"system:nodes"}},
		{name: "sa", as: "system:serviceaccount:ns1:a", groups: []string{"system:serviceaccounts", "system:serviceaccounts:ns1"}, namespace: "ns1", rules: one(rule("get,list,patch", "*", "*"))},
		{name: "ns1-all", namespace: "ns1", rules: one(rule("*", "*", "*"))},
		{name: "ns1-pods", namespace: "ns1", rules: one(rule("*", "", "pods"))},
		{name: "ns1-namespaces", namespace: "ns1", rules: one(rule("*", "", "namespaces"))},
		{name: "ns1-cluster", namespace: "ns1", rules: one(rule("*", "*", "namespaces,nodes,clusterroles,clusterrolebindings,persistentvolumes,gizmos,customresourcedefinitions,namespaces/finalize,namespaces/status"))},
		{name: "ns1-custom", namespace: "ns1", rules: one(rule("*", "matrix.test", "*"))},
		{name: "ns1-a", namespace: "ns1", rules: one(rule("*", "*", "*", "a"))},
		{name: "a", rules: one(rule("*", "*", "*", "a"))},
		{name: "namespace-ns1", rules: one(rule("*", "*", "*", "ns1"))},
		{name: "namespaces", rules: one(rule("*", "", "namespaces"))},
		{name: "custom", rules: one(rule("*", "matrix.test", "widgets,gizmos"))},
		{name: "paths", rules: one(map[string]any{"verbs": []string{"*"}, "nonResourceURLs": []string{"*"}})},
		{name: "exec-get", rules: one(rule("get", "", "pods/exec,pods/attach,pods/portforward"))},
		{name: "exec-create", rules: one(rule("create", "", "pods/exec,pods/attach,pods/portforward"))},
		{name: "apps-star", rules: one(rule("get,patch,update", "apps", "*"))},
	}
	for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
		out = append(out, user{name: "ns1-" + verb, namespace: "ns1", rules: one(rule(verb, "*", "*"))}, user{name: verb, rules: one(rule(verb, "*", "*"))})
	}
	for i, s := range []string{"pods/status", "deployments/scale", "*/status", "*/scale", "pods/eviction", "pods/proxy,services/proxy,nodes/proxy", "serviceaccounts/token", "namespaces/finalize,namespaces/status",
		"certificatesigningrequests/approval,certificatesigningrequests/status", "pods/binding,bindings", "pods/ephemeralcontainers", "pods/resize", "pods/log", "widgets/status,gizmos/status", "widgets/scale,gizmos/scale"} {
		out = append(out, user{name: fmt.Sprintf("sub%d-%s", i, strings.NewReplacer("/", "-", "*", "any", ",", "-").Replace(s)), rules: one(rule("*", "*", s))})
	}
	return out
}

// tokens is the users as a token file: everybody's token is the name.
func tokens(all []user) string {
	var b strings.Builder
	b.WriteString("peer-admin,admin,admin,system:masters\n") // package peer asks by it whether it is ready
	for _, u := range all {
		as := u.as
		if as == "" {
			as = u.name
		}
		fmt.Fprintf(&b, "%s,%s,%s,%q\n", u.name, as, u.name, strings.Join(u.groups, ","))
	}
	return b.String()
}

const rbac = "rbac.authorization.k8s.io"

// roles are the manifests that give the users their rights.
func roles(all []user) []map[string]any {
	var out []map[string]any
	for _, u := range all {
		if len(u.rules) == 0 {
			continue
		}
		role, binding, meta := "ClusterRole", "ClusterRoleBinding", map[string]any{"name": "user-" + u.name}
		if u.namespace != "" {
			role, binding, meta = "Role", "RoleBinding", map[string]any{"name": "user-" + u.name, "namespace": u.namespace}
		}
		as := u.as
		if as == "" {
			as = u.name
		}
		out = append(out, map[string]any{"apiVersion": rbac + "/v1", "kind": role, "metadata": meta, "rules": u.rules},
			map[string]any{"apiVersion": rbac + "/v1", "kind": binding, "metadata": meta, "roleRef": map[string]any{"apiGroup": rbac, "kind": role, "name": "user-" + u.name},
				"subjects": []any{map[string]any{"apiGroup": rbac, "kind": "User", "name": as}}})
	}
	return out
}
