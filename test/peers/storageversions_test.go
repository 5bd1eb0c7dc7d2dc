package peers

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/test/peer"
)

// TestStorageVersionsFirst has a webhook refuse that a server tells in which versions it stores objects. Writes of these wait, as on
// kube-apiserver.
func TestStorageVersionsFirst(t *testing.T) {
	compare(t, held(t, kanzen), ofPeers(t, "storageversions", func() facts { return held(t, kube) }))
}

func held(t *testing.T, kind string) facts {
	t.Helper()
	c, f := &cluster{etcd: peer.Etcd(t), alone: true}, facts{}
	before := c.start(t, kind, "before")
	made := ask(t, before, "POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", `{"metadata":{"name":"w"},"webhooks":[{"name":"w.test.example","sideEffects":"None","admissionReviewVersions":["v1"],
		"clientConfig":{"url":"https://127.0.0.1:1/"},"rules":[{"apiGroups":["internal.apiserver.k8s.io"],"apiVersions":["*"],"operations":["*"],"resources":["storageversions"]}]}]}`)
	if made.code != http.StatusCreated {
		t.Fatal(made)
	}
	path := ""
	if kind == kanzen {
		path = program
	}
	after := peer.StartUnready(t, path, c.etcd, "--feature-gates=StorageVersionAPI=true", "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true")
	const maps, map1 = "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"m"}}`
	var write answer
	within(t, "telling has failed", func() bool {
		write = ask(t, after, "POST", maps, map1)
		return strings.Contains(write.body, "last seen error: ") && !strings.Contains(write.body, "error: <nil>")
	})
	said, _, _ := strings.Cut(write.body, "last seen error: ")
	f.add("a write", said)
	f.add("its code", write.code)
	deployment, _, _ := strings.Cut(ask(t, after, "DELETE", "/apis/apps/v1/namespaces/default/deployments/none", "").body, "last seen error: ")
	f.add("a deletion", deployment)
	f.add("a read", ask(t, after, "GET", maps+"/none", ""))
	f.add("a namespace", ask(t, after, "POST", "/api/v1/namespaces", `{"metadata":{"name":"n"}}`).code)
	f.add("what is not stored", ask(t, after, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`).code)
	f.add("a lease of the system", ask(t, after, "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", `{"metadata":{"name":"l"}}`).code)
	f.add("another lease", ask(t, after, "POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", `{"metadata":{"name":"l"}}`).code)
	f.add("without the gate", ask(t, before, "POST", maps, map1).code)
	if gone := ask(t, before, "DELETE", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/w", ""); gone.code != http.StatusOK {
		t.Fatal(gone)
	}
	within(t, "writes are let in", func() bool { return ask(t, after, "PUT", maps+"/m", map1).code == http.StatusOK })
	return f
}
