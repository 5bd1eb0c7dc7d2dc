package noderestriction

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// nobody allows only tokens for one audience, and certificates of one signer.
type nobody struct{}

func (nobody) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	if a.Verb == "request-serviceaccounts-token-audience" && a.Resource == "allowed" ||
		a.Verb == "request-serviceaccounts-podcertificate-signer" && a.Resource == "example.com:allowed" {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u-" + "1"}
}

func pod(edit func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta("ns", "p"), Spec: corev1.PodSpec{NodeName: "me"}}
	if edit != nil {
		edit(p)
	}
	return p
}

func mirror(edit func(*corev1.Pod)) *corev1.Pod {
	yes := true
	return pod(func(p *corev1.Pod) {
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "me", UID: "u-1", Controller: &yes}}
		if edit != nil {
			edit(p)
		}
	})
}

func node(name string, labels map[string]string, taints ...corev1.Taint) *corev1.Node {
	n := &corev1.Node{ObjectMeta: meta("", name), Spec: corev1.NodeSpec{Taints: taints}}
	n.Labels = labels
	return n
}

func token(name string, audience ...string) *admission.Attributes {
	tr := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audience,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: "u-1"}}}
	tr.Namespace, tr.Name = "ns", "default"
	a := at.Create(admission.ServiceAccounts, tr)
	a.Subresource = "token"
	return a
}

func TestNode(t *testing.T) {
	var (
		other  = pod(func(p *corev1.Pod) { p.Name, p.Spec.NodeName = "other", "you" })
		asking = pod(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault"}}}}}}}
		})
		lease   = func(ns, name string) *coordinationv1.Lease { return &coordinationv1.Lease{ObjectMeta: meta(ns, name)} }
		me, you = "me", "you"
		slice   = func(node *string) *resourcev1.ResourceSlice {
			return &resourcev1.ResourceSlice{ObjectMeta: meta("", "s"), Spec: resourcev1.ResourceSliceSpec{NodeName: node}}
		}
		claim = func(phase corev1.PersistentVolumeClaimPhase, conditions ...corev1.PersistentVolumeClaimCondition) *corev1.PersistentVolumeClaim {
			return &corev1.PersistentVolumeClaim{ObjectMeta: meta("ns", "c"), Status: corev1.PersistentVolumeClaimStatus{Phase: phase, Conditions: conditions}}
		}
		evict = func(name string) *admission.Attributes {
			a := at.Create(admission.Pods, &policyv1.Eviction{ObjectMeta: meta("ns", name)})
			a.Subresource = "eviction"
			return a
		}
	)
	for _, c := range []struct {
		name string
		a    *admission.Attributes
		want string
	}{
		{"mirror", at.Create(admission.Pods, mirror(nil)), ""},
		{"no mirror", at.Create(admission.Pods, pod(nil)), "can only create mirror pods"},
		{"mirror elsewhere", at.Create(admission.Pods, mirror(func(p *corev1.Pod) { p.Spec.NodeName = "you" })), "spec.nodeName set to itself"},
		{"mirror of nobody", at.Create(admission.Pods, mirror(func(p *corev1.Pod) { p.OwnerReferences = nil })), "single owner reference"},
		{"mirror of another node", at.Create(admission.Pods, mirror(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "x" })), "UID mismatch"},
		{"mirror with secret", at.Create(admission.Pods, mirror(func(p *corev1.Pod) {
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}}
		})), "reference secrets"},
		{"mirror with claim", at.Create(admission.Pods, mirror(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}}}
		})), "reference persistentvolumeclaims"},
		{"update of a pod", at.Update(admission.Pods, "", pod(nil), pod(nil)), "unexpected operation"},
		{"delete", at.Delete(admission.Pods, pod(nil)), ""},
		{"delete another's", at.Delete(admission.Pods, other), `node "me" can only delete pods with spec.nodeName set to itself`},
		{"evict", evict("p"), ""},
		{"evict another's", evict("other"), "node me can only evict pods with spec.nodeName set to itself"},
		{"status", at.Update(admission.Pods, "status", pod(nil), pod(nil)), ""},
		{"labels in a status", at.Update(admission.Pods, "status", pod(func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }), pod(nil)), "update labels"},
		{"other subresource", at.Update(admission.Pods, "resize", pod(nil), pod(nil)), "unexpected pod subresource"},
		{"itself", at.Create(admission.Nodes, node("me", map[string]string{"topology.kubernetes.io/zone": "z", "my/label": "x"})), ""},
		{"another node", at.Create(admission.Nodes, node("you", nil)), "not allowed to modify node"},
		{"reserved label", at.Create(admission.Nodes, node("me", map[string]string{"x.node-restriction.kubernetes.io/a": "b", "foo.k8s.io/x": "y"})), "foo.k8s.io/x, x.node-restriction.kubernetes.io/a"},
		{"kubelet's label", at.Update(admission.Nodes, "", node("me", map[string]string{"x.kubelet.kubernetes.io/a": "b"}), node("me", nil)), ""},
		{"takes a reserved label off", at.Update(admission.Nodes, "status", node("me", nil), node("me", map[string]string{"node-restriction.kubernetes.io/a": "b"})), "modify labels"},
		{"taints", at.Update(admission.Nodes, "", node("me", nil), node("me", nil, corev1.Taint{Key: "k"})), "modify taints"},
		{"claim", at.Update(admission.PersistentVolumeClaims, "", claim(""), claim("")), "may only update PVC status"},
		{"claim's condition", at.Update(admission.PersistentVolumeClaims, "status", claim("", corev1.PersistentVolumeClaimCondition{Type: "x"}), claim("")), ""},
		{"claim's phase", at.Update(admission.PersistentVolumeClaims, "status", claim("Bound"), claim("")), "not allowed to update fields"},
		{"lease", at.Create(admission.Leases, lease("kube-node-lease", "me")), ""},
		{"another's lease", at.Create(admission.Leases, lease("kube-node-lease", "you")), "same name"},
		{"lease elsewhere", at.Create(admission.Leases, lease("ns", "me")), "system namespace"},
		{"slice", at.Create(resourceSlices, slice(&me)), ""},
		{"another's slice", at.Delete(resourceSlices, slice(&you)), "can only delete ResourceSlice with the same NodeName"},
		{"token", token("p"), "not authorized to request tokens for audience \"\""},
		{"token the pod asks for", token("asking", "vault"), ""},
		{"token the node may have", token("asking", "allowed"), ""},
		{"token of a pod elsewhere", token("other", "vault"), "different node"},
		{"two audiences", token("asking", "vault", "allowed"), "0 or 1 audiences"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asking.Name = "asking"
			p := New(at.NewObjects(pod(nil), other, asking, node("me", nil)), nobody{}, features.Set{})
			c.a.User = &user.DefaultInfo{Name: "system:node:me", Groups: []string{user.NodesGroup}}
			at.Check(t, at.Run(p, c.a), c.want)
			c.a.User = &user.DefaultInfo{Name: "system:node:me"}
			at.Check(t, at.Run(p, c.a), "") // without the group the user is not a node
		})
	}
}

// TestInsecureRequests switches the gate on, which leaves the names in kubelets' certificate requests unchecked.
func TestInsecureRequests(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request := func(name string) *certificatesv1.CertificateSigningRequest {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return &certificatesv1.CertificateSigningRequest{ObjectMeta: meta("", "r"), Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeletServingSignerName, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}}
	}
	garbage := request("")
	garbage.Spec.Request = []byte("x")
	for _, c := range []struct {
		flag string
		csr  *certificatesv1.CertificateSigningRequest
		want string
	}{
		{"", request("system:node:me"), ""},
		{"", request("system:node:you"), "can only create a node CSR with CN=system:node:me"},
		{"", garbage, "unable to parse csr"},
		{features.AllowInsecureKubeletCertificateSigningRequests + "=true", request("system:node:you"), ""},
		{features.AllowInsecureKubeletCertificateSigningRequests + "=true", garbage, ""},
	} {
		gates, err := features.Parse([]string{c.flag}, features.Now())
		if err != nil {
			t.Fatal(err)
		}
		a := at.Create(admission.CertificateSigningRequests, c.csr)
		a.User = &user.DefaultInfo{Name: "system:node:me", Groups: []string{user.NodesGroup}}
		at.Check(t, at.Run(New(at.NewObjects(), nobody{}, gates), a), c.want)
	}
}

// TestAudiencesUnrestricted switches the gate off: whatever the audience, the pod must be the node's.
func TestAudiencesUnrestricted(t *testing.T) {
	off, err := features.Parse([]string{features.ServiceAccountNodeAudienceRestriction + "=false"}, features.Now())
	if err != nil {
		t.Fatal(err)
	}
	mine := &corev1.Pod{ObjectMeta: meta("ns", "p"), Spec: corev1.PodSpec{NodeName: "me"}}
	other := &corev1.Pod{ObjectMeta: meta("ns", "other"), Spec: corev1.PodSpec{NodeName: "you"}}
	mine.UID, other.UID = "u-1", "u-1"
	p := New(at.NewObjects(mine, other, node("me", nil)), nobody{}, off)
	for _, c := range []struct {
		a    *admission.Attributes
		want string
	}{{token("p", "any", "number"), ""}, {token("other"), "different node"}} {
		c.a.User = &user.DefaultInfo{Name: "system:node:me", Groups: []string{user.NodesGroup}}
		at.Check(t, at.Run(p, c.a), c.want)
	}
}
