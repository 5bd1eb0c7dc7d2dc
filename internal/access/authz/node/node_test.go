package node

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authz"
)

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func volumeOf(name, claim string, secrets ...string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{}
	pv.Name = name
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "a", Name: claim}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{ControllerPublishSecretRef: &corev1.SecretReference{Namespace: "a", Name: "controller"}}
	refs := []**corev1.SecretReference{&pv.Spec.CSI.NodeStageSecretRef, &pv.Spec.CSI.NodePublishSecretRef, &pv.Spec.CSI.NodeExpandSecretRef}
	for i, s := range secrets {
		*refs[i] = &corev1.SecretReference{Namespace: "a", Name: s}
	}
	return pv
}

func TestAuthorize(t *testing.T) {
	g := NewGraph(&authz.Changes{})
	uses := func(kind Kind, names ...string) (out []Ref) {
		for _, n := range names {
			out = append(out, Ref{kind, "a", n})
		}
		return out
	}
	g.SetPod(1, "a", "p1", "n1", append(uses(Secret, "s1", "both"), append(uses(Claim, "c1"), uses(ServiceAccount, "sa")...)...))
	g.SetPod(2, "a", "p2", "n2", append(uses(Secret, "both"), append(uses(ConfigMap, "m2"), uses(ResourceClaim, "r2")...)...))
	g.SetPod(3, "a", "gone", "n1", uses(Secret, "gone"))
	g.DeletePod(4, "a", "gone")
	g.SetPod(5, "a", "again", "n1", uses(Secret, "before"))
	g.SetPod(6, "a", "again", "n1", uses(Secret, "after"))
	g.SetVolume(7, volumeOf("v1", "c1", "stage", "publish"))
	g.SetVolume(8, volumeOf("moved", "c1", "moved"))
	g.SetVolume(9, volumeOf("moved", "c2", "moved"))
	g.SetAttachment(10, "va1", "n1")
	g.SetSlice(11, "slice1", "n1")
	g.SetSlice(12, "slice0", "")
	g.SetPodCertificate(13, "a", "cert1", "n1")
	g.SetPodCertificate(14, "a", "cert2", "n2")
	a := New(g, closed(), []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"services", "secrets"}}})

	a.PodCertificates = true

	resource := func(verb, resource, name string) *authz.Attributes {
		return &authz.Attributes{IsResource: true, Verb: verb, Resource: resource, Namespace: "a", Name: name}
	}
	with := func(at *authz.Attributes, change func(*authz.Attributes)) *authz.Attributes { change(at); return at }
	cluster := func(group, verb, res, name string) *authz.Attributes {
		return &authz.Attributes{IsResource: true, Verb: verb, Group: group, Resource: res, Name: name}
	}
	certificate := func(verb, name string) *authz.Attributes {
		return with(resource(verb, "podcertificaterequests", name), func(a *authz.Attributes) { a.Group = "certificates.k8s.io" })
	}
	const unrelated = "no relationship found between node 'n1' and this object"
	for _, c := range []struct {
		name  string
		asked *authz.Attributes
		ok    bool
		why   string
	}{
		{"own secret", resource("get", "secrets", "s1"), true, ""},
		{"watch own secret", resource("watch", "secrets", "s1"), true, ""},
		{"shared secret", resource("get", "secrets", "both"), true, ""},
		{"delete secret", resource("delete", "secrets", "s1"), false, "can only read resources of this type"},
		{"secrets", resource("list", "secrets", ""), false, "No Object name found"},
		{"secrets everywhere", cluster("", "list", "secrets", ""), false, "can only read namespaced object of this type"},
		{"secret of a deleted pod", resource("get", "secrets", "gone"), false, unrelated},
		{"secret no more used", resource("get", "secrets", "before"), false, unrelated},
		{"secret used since", resource("get", "secrets", "after"), true, ""},
		{"other's config map", resource("get", "configmaps", "m2"), false, unrelated},
		{"secret of a volume", resource("get", "secrets", "stage"), true, ""},
		{"other secret of a volume", resource("get", "secrets", "publish"), true, ""},
		{"controller's secret of a volume", resource("get", "secrets", "controller"), false, unrelated},
		{"secret of a volume bound elsewhere", resource("get", "secrets", "moved"), false, unrelated},
		{"volume", cluster("", "get", "persistentvolumes", "v1"), true, ""},
		{"volume bound elsewhere", cluster("", "get", "persistentvolumes", "moved"), false, unrelated},
		{"volumes", cluster("", "list", "persistentvolumes", ""), false, "can only get individual resources of this type"},
		{"claim", resource("get", "persistentvolumeclaims", "c1"), true, ""},
		{"claim status", with(resource("patch", "persistentvolumeclaims", "c1"), func(a *authz.Attributes) { a.Subresource = "status" }), true, ""},
		{"read claim status", with(resource("get", "persistentvolumeclaims", "c1"), func(a *authz.Attributes) { a.Subresource = "status" }), false, "can only get/update/patch this type"},
		{"other's resource claim", with(resource("get", "resourceclaims", "r2"), func(a *authz.Attributes) { a.Group = "resource.k8s.io" }), false, unrelated},
		{"attachment", cluster("storage.k8s.io", "get", "volumeattachments", "va1"), true, ""},
		{"account", resource("get", "serviceaccounts", "sa"), true, ""},
		{"account's token", with(resource("create", "serviceaccounts", "sa"), func(a *authz.Attributes) { a.Subresource = "token" }), true, ""},
		{"other account's token", with(resource("create", "serviceaccounts", "x"), func(a *authz.Attributes) { a.Subresource = "token" }), false, unrelated},
		{"accounts", resource("list", "serviceaccounts", ""), false, "can only create tokens for individual service accounts"},
		{"own lease", &authz.Attributes{IsResource: true, Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-node-lease", Name: "n1"}, true, ""},
		{"new lease", &authz.Attributes{IsResource: true, Verb: "create", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-node-lease"}, true, ""},
		{"other's lease", &authz.Attributes{IsResource: true, Verb: "get", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-node-lease", Name: "n2"}, false, "can only access node lease with the same name as the requesting node"},
		{"lease elsewhere", &authz.Attributes{IsResource: true, Verb: "get", Group: "coordination.k8s.io", Resource: "leases", Namespace: "a", Name: "n1"}, false, `can only access leases in the "kube-node-lease" system namespace`},
		{"csi node", cluster("storage.k8s.io", "patch", "csinodes", "n1"), true, ""},
		{"own slice", cluster("resource.k8s.io", "delete", "resourceslices", "slice1"), true, ""},
		{"nobody's slice", cluster("resource.k8s.io", "delete", "resourceslices", "slice0"), false, unrelated},
		{"own slices", with(cluster("resource.k8s.io", "list", "resourceslices", ""), func(a *authz.Attributes) { a.FieldSelector = "spec.nodeName=n1" }), true, ""},
		{"all slices", cluster("resource.k8s.io", "list", "resourceslices", ""), false, "can only list/watch/deletecollection resourceslices with nodeName field selector"},
		{"own certificate", certificate("get", "cert1"), true, ""},
		{"other's certificate", certificate("get", "cert2"), false, unrelated},
		{"new certificate", certificate("create", ""), true, ""},
		{"delete certificate", certificate("delete", "cert1"), false, "nodes may not delete podcertificaterequests"},
		{"sign certificate", with(certificate("patch", "cert1"), func(a *authz.Attributes) { a.Subresource = "status" }), false, "nodes may not access the status subresource of PodCertificateRequests"},
		{"own certificates", with(certificate("watch", ""), func(a *authz.Attributes) { a.FieldSelector = "spec.nodeName=n1" }), true, ""},
		{"all certificates", certificate("list", ""), false, "can only list/watch podcertificaterequests with nodeName field selector"},
		{"own node", cluster("", "get", "nodes", "n1"), true, ""},
		{"other node", cluster("", "get", "nodes", "n2"), false, "node 'n1' cannot read 'n2', only its own Node object"},
		{"nodes", cluster("", "list", "nodes", ""), false, "node 'n1' cannot read all nodes, only its own Node object"},
		{"node status", with(cluster("", "patch", "nodes", "n1"), func(a *authz.Attributes) { a.Subresource = "status" }), true, ""},
		{"own pods", with(cluster("", "watch", "pods", ""), func(a *authz.Attributes) { a.FieldSelector = "spec.nodeName=n1" }), true, ""},
		{"others' pods", with(cluster("", "watch", "pods", ""), func(a *authz.Attributes) { a.FieldSelector = "spec.nodeName!=n1" }), false, "can only list/watch pods with spec.nodeName field selector"},
		{"own pod", resource("get", "pods", "p1"), true, ""},
		{"other's pod", resource("get", "pods", "p2"), false, unrelated},
		{"pod's log", with(resource("get", "pods", "p1"), func(a *authz.Attributes) { a.Subresource = "log" }), false, ""},
		{"what all nodes may", resource("get", "services", "x"), true, ""},
		{"what none may", resource("delete", "services", "x"), false, ""},
		{"path", &authz.Attributes{Verb: "get", Path: "/metrics"}, false, ""},
	} {
		c.asked.User = &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}}
		decision, why, err := a.Authorize(t.Context(), c.asked)
		want := authz.NoOpinion
		if c.ok {
			want = authz.Allow
		}
		if decision != want || why != c.why || err != nil {
			t.Errorf("%s: %v %q %v, want %v %q", c.name, decision, why, err, want, c.why)
		}
	}
	g.DeletePod(15, "a", "p1")
	g.DeletePod(16, "a", "p2")
	g.DeletePod(17, "a", "again")
	g.DeleteVolume(18, "v1")
	g.DeleteVolume(19, "moved")
	g.DeleteAttachment(20, "va1")
	g.DeleteSlice(21, "slice1")
	g.DeletePodCertificate(22, "a", "cert1")
	g.DeletePodCertificate(23, "a", "cert2")
	if n := len(g.nodes) + len(g.edges) + len(g.volumes) + len(g.byClaim) + len(g.shares); n != 0 {
		t.Errorf("%d entries are left of nothing", n)
	}
}

// TestNoAccounts lets nodes make tokens of their pods' accounts, but not read the accounts.
func TestNoAccounts(t *testing.T) {
	g := NewGraph(&authz.Changes{})
	g.SetPod(1, "a", "p", "n1", []Ref{{Kind: ServiceAccount, Namespace: "a", Name: "sa"}})
	a := New(g, closed(), nil)
	for _, c := range []struct {
		off       bool
		verb, sub string
		want      authz.Decision
		why       string
	}{
		{false, "get", "", authz.Allow, ""},
		{true, "get", "", authz.NoOpinion, "not allowed to get service accounts"},
		{true, "create", "token", authz.Allow, ""},
	} {
		a.NoAccounts = c.off
		got, why, err := a.Authorize(t.Context(), &authz.Attributes{User: &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}},
			IsResource: true, Verb: c.verb, Resource: "serviceaccounts", Subresource: c.sub, Namespace: "a", Name: "sa"})
		if got != c.want || why != c.why || err != nil {
			t.Errorf("%+v: %v %q %v", c, got, why, err)
		}
	}
}

func TestWhoIsNoNode(t *testing.T) {
	a := New(NewGraph(&authz.Changes{}), make(chan struct{}), nil)
	for name, u := range map[string]user.Info{
		"nobody":            nil,
		"without the group": &user.DefaultInfo{Name: "system:node:n1"},
		"without the name":  &user.DefaultInfo{Name: "n1", Groups: []string{"system:nodes"}},
	} {
		// None of these requests waits for the graph.
		decision, why, err := a.Authorize(t.Context(), &authz.Attributes{User: u, IsResource: true, Verb: "get", Resource: "nodes", Name: "n1"})
		if decision != authz.NoOpinion || why != "" || err != nil {
			t.Errorf("%s: %v %q %v", name, decision, why, err)
		}
	}
}

// A node is told of what changes for it, also when it loses the last that belongs to it, and of nothing else.
func TestGraphTellsOfChanges(t *testing.T) {
	changes := &authz.Changes{}
	g := NewGraph(changes)
	var version, versionOfAll uint64
	var rev int64
	next, everybody := changes.Next("n1"), changes.Next("")
	told := func() bool {
		select {
		case <-next:
			next = changes.Next("n1")
			return true
		default:
			return false
		}
	}
	uses := []Ref{{Claim, "a", "c1"}, {Secret, "a", "s"}}
	for n, c := range []struct {
		what    string
		change  func(rev int64)
		differs bool
	}{
		{"pod of it", func(rev int64) { g.SetPod(rev, "a", "p", "n1", uses) }, true},
		{"same pod", func(rev int64) { g.SetPod(rev, "a", "p", "n1", uses) }, false},
		{"pod of another", func(rev int64) { g.SetPod(rev, "a", "other", "n2", uses[1:]) }, false},
		{"volume of its claim", func(rev int64) { g.SetVolume(rev, volumeOf("v", "c1", "stage")) }, true},
		{"same volume", func(rev int64) { g.SetVolume(rev, volumeOf("v", "c1", "stage")) }, false},
		{"other secret of the volume", func(rev int64) { g.SetVolume(rev, volumeOf("v", "c1", "publish")) }, true},
		{"volume of another claim", func(rev int64) { g.SetVolume(rev, volumeOf("w", "c2", "stage")) }, false},
		{"volume moves away", func(rev int64) { g.SetVolume(rev, volumeOf("v", "c2", "publish")) }, true},
		{"volume removed", func(rev int64) { g.DeleteVolume(rev, "v") }, false},
		{"pod moves away", func(rev int64) { g.SetPod(rev, "a", "p", "n2", uses) }, true},
		{"pod comes back", func(rev int64) { g.SetPod(rev, "a", "p", "n1", nil) }, true},
		{"pod deleted", func(rev int64) { g.DeletePod(rev, "a", "p") }, true},
	} {
		at := int64(n + 10)
		c.change(at)
		if woken, v := told(), g.Version("n1"); woken != c.differs || (v != version) != c.differs {
			t.Errorf("%s: told %v, version %d after %d", c.what, woken, v, version)
		}
		version = g.Version("n1")
		if c.differs {
			rev = at
		}
		if got := g.ChangedAt("n1"); got != rev {
			t.Errorf("%s: changed at %d, want %d", c.what, got, rev)
		}
		if changes.Version() != versionOfAll {
			t.Errorf("%s: everybody was told", c.what)
		}
	}
	select {
	case <-everybody:
		t.Error("everybody was woken")
	default:
	}
	if changes.Tell(); !told() || changes.Version() <= version {
		t.Errorf("a change for everybody has number %d after %d, or did not wake the node", changes.Version(), version)
	}
}

// BenchmarkScope asks which secrets a node may list that has 110 of 110,000 pods, each with two secrets.
func BenchmarkScope(b *testing.B) {
	g := NewGraph(&authz.Changes{})
	for n := range 110_000 {
		name := strconv.Itoa(n)
		g.SetPod(int64(n), "a", name, "n"+strconv.Itoa(n%1000), []Ref{{Secret, "a", name}, {Secret, "a", "shared"}})
	}
	a := New(g, closed(), nil)
	asked := &authz.Attributes{User: &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}}, IsResource: true, Verb: "watch", Resource: "secrets"}
	for b.Loop() {
		if n := len(a.Scope(asked).In["a"].Some); n != 111 {
			b.Fatal(n)
		}
	}
}
