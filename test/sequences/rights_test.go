package sequences

import (
	"maps"
	"slices"
	"strings"
)

// rights makes a sequence of people who may do some things, while roles and bindings say at any moment which: the administrator and they
// themselves write these.
func (g *generator) rights() []step {
	g.objects, g.number = nil, 0
	var plain, access []object
	for _, name := range []string{"ConfigMap", "Secret", "Pod", "Deployment", "Widget", "ServiceAccount", "CertificateSigningRequest", "PersistentVolume"} {
		if k := g.kind(name); k != nil && g.chance(25) {
			plain = append(plain, g.object(k, "a"), g.object(k, "b"))
		}
	}
	if k := g.kind("ConfigMap"); len(plain) == 0 {
		plain = append(plain, g.object(k, "a"))
	}
	for _, name := range []string{"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} {
		k := *g.kind(name)
		k.bases, k.edits = nil, nil
		for range 4 {
			k.bases = append(k.bases, g.grant(name, plain))
		}
		for _, b := range k.bases {
			edit := maps.Clone(b)
			delete(edit, "metadata")
			k.edits = append(k.edits, edit)
		}
		access = append(access, g.object(&k, "a"), g.object(&k, "b"))
	}
	g.objects = plain
	var out []step
	for _, o := range access {
		if g.chance(80) {
			out = append(out, step{Method: "POST", Path: o.collection(o.root()), Body: text(o.kind.object(pick(g, o.bases...), o.name))})
		}
	}
	for _, o := range plain {
		if g.chance(60) {
			out = append(out, g.create(o))
		}
	}
	g.objects = append(plain, access...)
	for range 8 + g.IntN(24) {
		g.number++
		st := g.step(pick(g, plain...))
		switch n := g.IntN(100); {
		case n < 22:
			st = g.step(pick(g, access...))
		case n < 42:
			st = g.step(pick(g, access...))
			st.Headers = g.person()
		case n < 52:
			st = g.review(pick(g, g.objects...))
		default:
			st.Headers = g.person()
		}
		out = append(out, st)
	}
	return out
}

// kind is one by its name; nil if the sequences are not about it.
func (g *generator) kind(name string) *kind {
	for _, k := range g.kinds {
		if k.kind == name {
			return k
		}
	}
	return nil
}

// object is one of a kind, under a name that no other run has.
func (g *generator) object(k *kind, name string) object {
	if !k.namespaced {
		name = "$R-" + name
	}
	return object{k, name}
}

// person is somebody who asks: the administrator in the name of others, or one of those who have tokens, who may ask in others' names or not.
func (g *generator) person() map[string][]string {
	h := map[string][]string{}
	if g.chance(12) {
		h["Authorization"] = []string{"Bearer ask0"}
		if g.chance(30) {
			return h
		}
	}
	switch g.IntN(8) {
	case 0, 1, 2:
		h["Impersonate-User"] = []string{"$R-u1"}
	case 3, 4:
		h["Impersonate-User"] = []string{"$R-u2"}
	case 5:
		h["Impersonate-User"] = []string{"$R-u3"}
		h["Impersonate-Group"] = []string{"$R-g", "$R-other"}
	case 6:
		h["Impersonate-User"] = []string{"system:serviceaccount:$R:default"}
	default:
		h["Impersonate-User"] = []string{"$R-u2"}
		h["Impersonate-Group"] = []string{"$R-g"}
		if g.chance(30) {
			h["Impersonate-Uid"] = []string{"1"}
		}
		if g.chance(30) {
			h["Impersonate-Extra-Scopes.example.com%2fa"] = []string{"x", "y"}
		}
	}
	return h
}

// grant is a role or a binding.
func (g *generator) grant(kind string, about []object) map[string]any {
	doc := map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": map[string]any{}}
	if strings.HasSuffix(kind, "Role") {
		rules := []any{}
		for range g.IntN(4) {
			rules = append(rules, g.rule(kind, about))
		}
		doc["rules"] = rules
		if kind == "ClusterRole" && g.chance(15) {
			doc["aggregationRule"] = map[string]any{"clusterRoleSelectors": []any{map[string]any{"matchLabels": map[string]any{"run": "$R", "x": "y"}}}}
		}
		return doc
	}
	ref := map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": pick(g, "$R-a", "$R-a", "$R-b", "$R-none", "view", "edit", "admin")}
	if kind == "RoleBinding" && g.chance(60) {
		ref["kind"], ref["name"] = "Role", pick(g, "a", "a", "b", "none")
	}
	doc["roleRef"] = ref
	subjects := []any{}
	for range 1 + g.IntN(2) {
		subjects = append(subjects, pick(g,
			map[string]any{"kind": "User", "name": "$R-u1", "apiGroup": "rbac.authorization.k8s.io"},
			map[string]any{"kind": "User", "name": "$R-u2", "apiGroup": "rbac.authorization.k8s.io"},
			map[string]any{"kind": "User", "name": "$R-u1"},
			map[string]any{"kind": "User", "name": "ask0"},
			map[string]any{"kind": "Group", "name": "$R-g", "apiGroup": "rbac.authorization.k8s.io"},
			map[string]any{"kind": "Group", "name": "system:serviceaccounts:$R", "apiGroup": "rbac.authorization.k8s.io"},
			map[string]any{"kind": "ServiceAccount", "name": "default", "namespace": "$R"}))
	}
	doc["subjects"] = subjects
	return doc
}

// rule is one of a role.
func (g *generator) rule(role string, about []object) map[string]any {
	list := func(all ...string) []any {
		out := []any{}
		for _, s := range all {
			out = append(out, s)
		}
		return out
	}
	some := func(n int, all ...string) []any {
		out := []string{}
		for range 1 + g.IntN(n) {
			if s := pick(g, all...); !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
		return list(out...)
	}
	switch n := g.IntN(100); {
	case n < 12 && role == "ClusterRole":
		return map[string]any{"nonResourceURLs": list(pick(g, "/version", "/healthz/*", "*", "/api*")), "verbs": list(pick(g, "get", "*"))}
	case n < 32:
		r := map[string]any{"apiGroups": list("rbac.authorization.k8s.io"), "resources": some(3, "roles", "rolebindings", "clusterroles", "clusterrolebindings", "*"),
			"verbs": some(6, "get", "list", "create", "update", "patch", "delete", "bind", "escalate", "*", "watch")}
		if g.chance(20) {
			r["resourceNames"] = some(2, "a", "b", "$R-a", "view")
		}
		return r
	case n < 40:
		r := map[string]any{"apiGroups": list(pick(g, "", "authentication.k8s.io")), "resources": some(3, "users", "groups", "serviceaccounts", "uids", "userextras/scopes.example.com/a"),
			"verbs": some(3, "impersonate", "impersonate", "impersonate-on:user-info:get", "impersonate:user-info", "impersonate-on:user-info:list")}
		if g.chance(40) {
			r["resourceNames"] = some(2, "$R-u1", "$R-u2", "$R-g", "default", "x")
		}
		return r
	}
	o := pick(g, about...)
	resources := []string{o.plural, o.plural, o.plural, "*", "*/status", "*/scale"}
	for _, s := range o.subresources {
		resources = append(resources, o.plural+"/"+s)
	}
	r := map[string]any{"apiGroups": pick(g, list(o.group), list(o.group), list("*"), list("", "apps")), "resources": some(3, resources...),
		"verbs": some(7, "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*", "approve")}
	if g.chance(25) {
		r["resourceNames"] = some(2, o.name, "a", "b")
	}
	return r
}

// review asks what somebody may do.
func (g *generator) review(o object) step {
	attributes := map[string]any{"verb": pick(g, "get", "list", "create", "patch", "*", "bind"), "group": pick(g, o.group, o.group, "*"), "resource": pick(g, o.plural, o.plural, "*")}
	if o.namespaced && g.chance(80) {
		attributes["namespace"] = "$R"
	}
	if g.chance(40) {
		attributes["name"] = o.name
	}
	if g.chance(20) && len(o.subresources) > 0 {
		attributes["subresource"] = pick(g, o.subresources...)
	}
	if g.chance(10) {
		attributes["fieldSelector"] = map[string]any{"rawSelector": "spec.nodeName=n"}
	}
	spec := map[string]any{"resourceAttributes": attributes}
	if g.chance(10) {
		spec = map[string]any{"nonResourceAttributes": map[string]any{"path": pick(g, "/version", "/healthz/x", "/other"), "verb": "get"}}
	}
	kind, path := "SelfSubjectAccessReview", "/apis/authorization.k8s.io/v1/"
	st := step{Method: "POST", Headers: g.person()}
	switch g.IntN(6) {
	case 0:
		kind, st.Headers = "SubjectAccessReview", nil
		spec["user"], spec["groups"] = pick(g, "$R-u1", "$R-u2", "", "system:serviceaccount:$R:default"), pick(g, []any{}, []any{"$R-g"})
	case 1:
		kind, path, st.Headers = "LocalSubjectAccessReview", path+"namespaces/$R/", nil
		spec["user"] = pick(g, "$R-u1", "$R-u2")
	case 2:
		kind, spec = "SelfSubjectRulesReview", map[string]any{"namespace": pick(g, "$R", "default")}
	case 3:
		return step{Method: "POST", Path: "/apis/authentication.k8s.io/v1/selfsubjectreviews", Headers: st.Headers,
			Body: text(map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})}
	}
	st.Path = path + strings.ToLower(kind) + "s"
	st.Body = text(map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec})
	return st
}
