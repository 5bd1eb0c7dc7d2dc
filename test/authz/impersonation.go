package authz

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wish is a request to act as somebody else. The answer is a SelfSubjectReview
// where it is allowed, which says as whom.
type wish struct {
	Asker  string              `json:"asker"`
	Header map[string][]string `json:"header"`
	Path   string              `json:"path"`
}

// whoami tells who one is.
const whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

func askers() []string { return []string{"ask0", "ask1", "ask2", "ask3", "ask4", "ask5"} }

// impersonators gives the askers roles by which they may act as some.
func (w *world) impersonators() {
	const group, node = "authentication.k8s.io", "n1"
	rule := func(verbs []string, g string, resources []string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{g}, Resources: resources, ResourceNames: names}
	}
	impersonate := []string{"impersonate"}
	for n, rules := range [][]rbacv1.PolicyRule{
		// As before there were modes: everything, and some things.
		{rule(impersonate, "", []string{"users", "groups", "serviceaccounts"}), rule(impersonate, group, []string{"uids", "userextras/scopes", "userextras/example.com%2fa"})},
		{rule(impersonate, "", []string{"users"}, "alice", "system:node:"+node), rule(impersonate, "", []string{"groups"}, "devs"), rule(impersonate, group, []string{"userextras/scopes"}, "view")},
		// By mode.
		{rule([]string{"impersonate:user-info"}, group, []string{"users", "groups", "uids", "userextras/scopes"}), rule([]string{"impersonate-on:user-info:create"}, group, []string{"selfsubjectreviews"})},
		{rule([]string{"impersonate:user-info"}, group, []string{"users"}, "alice"), rule([]string{"impersonate:user-info"}, group, []string{"groups"}, "*", "devs"), rule([]string{"impersonate-on:user-info:*", "impersonate-on:user-info:create"}, group, []string{"*"})},
		{rule([]string{"impersonate:serviceaccount"}, group, []string{"serviceaccounts"}), rule([]string{"impersonate-on:serviceaccount:create"}, group, []string{"selfsubjectreviews"}),
			rule([]string{"impersonate:arbitrary-node"}, group, []string{"nodes"}, node), rule([]string{"impersonate-on:arbitrary-node:create"}, group, []string{"selfsubjectreviews"})},
		{},
	} {
		name := "impersonate-" + askers()[n]
		w.add(rbacPath+"clusterroles", &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: append([]rbacv1.PolicyRule{}, rules...)})
		w.add(rbacPath+"clusterrolebindings", &rbacv1.ClusterRoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: askers()[n]}}})
	}
}

func (w *world) wish() wish {
	r := wish{Asker: pick(w, askers()...), Header: map[string][]string{}, Path: pick(w, whoami, whoami, whoami, whoami, "/api/v1/namespaces/ns0/pods", "/version")}
	if w.IntN(12) > 0 {
		r.Header["Impersonate-User"] = []string{pick(w, "alice", "alice", "bob", "system:serviceaccount:ns0:sa0", "system:serviceaccount:ns1:sa1", "system:node:n1", "system:node:n2",
			"system:anonymous", "system:serviceaccount:Bad:x", "system:serviceaccount:", "system:node:", "system:masters", "a b")}
	}
	for range w.IntN(3) * w.IntN(3) {
		r.Header["Impersonate-Group"] = append(r.Header["Impersonate-Group"], pick(w, "devs", "ops", "system:nodes", "system:masters", "system:unauthenticated", "system:authenticated", "system:serviceaccounts", ""))
	}
	if w.IntN(5) == 0 {
		r.Header["Impersonate-Uid"] = []string{pick(w, "1", "2")}
	}
	if w.IntN(4) == 0 {
		r.Header[pick(w, "Impersonate-Extra-Scopes", "Impersonate-Extra-Example.com%2fa", "Impersonate-Extra-Other", "Impersonate-Extra-", "Impersonate-Extra-%zz")] =
			some(w, "view", "edit", "")
	}
	if w.IntN(30) == 0 {
		r.Header["Impersonate-Nosuch"] = []string{"x"}
	}
	return r
}
