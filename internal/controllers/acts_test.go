package controllers_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// certificateRequest is a manifest with the name r.
func certificateRequest(t *testing.T, signer, node string, usages string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}, key)
	must(t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return fmt.Sprintf("{kind: CertificateSigningRequest, metadata: {name: r}, spec: {signerName: kubernetes.io/%s, usages: [%s], request: %s}}",
		signer, usages, base64.StdEncoding.EncodeToString(text))
}

// podCertificateRequest is a manifest with the name r, for a key of its own.
func podCertificateRequest(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	must(t, err)
	return fmt.Sprintf("{kind: PodCertificateRequest, metadata: {namespace: default, name: r}, spec: {signerName: example.com/s, podName: p, podUID: pu, "+
		"serviceAccountName: s, serviceAccountUID: su, nodeName: node, nodeUID: nu, stubPKCS10Request: %s}}", base64.StdEncoding.EncodeToString(der))
}

// trustBundle is a manifest of a bundle that the server once had.
func trustBundle(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	return fmt.Sprintf("{kind: ClusterTrustBundle, metadata: {name: 'kubernetes.io:kube-apiserver-serving:former'}, spec: {signerName: kubernetes.io/kube-apiserver-serving, trustBundle: %q}}",
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

const day = 24 * time.Hour

// acts are what controllers do to objects that exist.
func acts(t *testing.T) []act {
	const (
		decided  = `{"status":{"conditions":[{"type":"%s","status":"True","reason":"r","message":"m"}]}}`
		failed   = `{"status":{"conditions":[{"type":"Approved","status":"True","reason":"r","message":"m"},{"type":"Failed","status":"True","reason":"r","message":"m"}]}}`
		pod      = "template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}"
		finished = `{"status":{"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:00:00Z","conditions":[` +
			`{"type":"SuccessCriteriaMet","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Complete","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
		claim  = "{kind: PersistentVolumeClaim, metadata: {namespace: default, name: c}, spec: {accessModes: [%s], resources: {requests: {storage: 1Gi}}}}"
		volume = "{kind: PersistentVolume, metadata: {name: v}, spec: {accessModes: [%s], capacity: {storage: 1Gi}, csi: {driver: d, volumeHandle: h}}}"
		class  = "{kind: VolumeAttributesClass, metadata: {name: c}, driverName: %s, parameters: {a: b}}"
		token  = "{kind: Secret, metadata: {namespace: default, name: s, annotations: {kubernetes.io/service-account.name: robot}}, type: kubernetes.io/service-account-token}"
		opaque = "{kind: Secret, metadata: {namespace: default, name: s}, type: Opaque}"
		robot  = "{kind: ServiceAccount, metadata: {namespace: default, name: robot}, secrets: [{name: s}]}"
		owner  = "{kind: ConfigMap, metadata: {namespace: default, name: owner}}"
		group  = "{kind: PodGroup, metadata: {namespace: default, name: g}, spec: {schedulingPolicy: {gang: {minCount: %d}}}}"
		// A request is answered at once.
		poolRequest = "{kind: ResourcePoolStatusRequest, metadata: {name: r}, spec: {driver: d.example.com}}"
		version     = "{kind: StorageVersion, metadata: {name: test.things}}"
		one         = "{kind: ConfigMap, metadata: {namespace: default, name: one}}"
	)
	groups := []string{"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true"}
	pools := []string{"--feature-gates=DRAResourcePoolStatus=true", "--runtime-config=resource.k8s.io/v1alpha3=true"}
	versions := []string{"--feature-gates=StorageVersionAPI=true", "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true"}
	told := func(servers ...string) string {
		var all []string
		for _, s := range servers {
			all = append(all, fmt.Sprintf(`{"apiServerID":%q,"encodingVersion":"test/v1","decodableVersions":["test/v1"],"servedVersions":["test/v1"]}`, s))
		}
		return `{"status":{"commonEncodingVersion":"test/v1","storageVersions":[` + strings.Join(all, ",") + `]}}`
	}
	node := certificateRequest(t, "kube-apiserver-client-kubelet", "n1", "digital signature, client auth")
	other := certificateRequest(t, "kubelet-serving", "n2", "digital signature, server auth")
	remove := func(plural, object string) func(*arena) {
		return func(a *arena) { a.delete(plural, object, metav1.DeletePropagationBackground) }
	}
	// dependent makes an object with an owner, and deletes the owner.
	dependent := func(policy metav1.DeletionPropagation) func(*arena) {
		return func(a *arena) {
			o := a.create(owner)
			a.create(fmt.Sprintf("{kind: ConfigMap, metadata: {namespace: default, name: one, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: %s}]}}", o.GetUID()))
			a.delete("configmaps", "default/owner", policy)
		}
	}
	later := func(d time.Duration) func(*arena) { return func(a *arena) { a.clock.Advance(d) } }
	// filled lets time pass once another controller is done with the token.
	filled := func(d time.Duration) func(*arena) {
		return func(a *arena) {
			a.has("secrets", "default/s", "data", "token")
			a.clock.Advance(d)
		}
	}
	return []act{
		{controller: "namespace-controller", verb: "update", on: "namespaces/finalize", object: "/ns", step: remove("namespaces", "/ns"),
			prepare: []string{"{kind: Namespace, metadata: {name: ns}}"}, second: "{kind: Namespace, metadata: {name: ns}}"},
		{controller: "namespace-controller", verb: "update", on: "namespaces/status", object: "/ns", step: remove("namespaces", "/ns"),
			prepare: []string{"{kind: Namespace, metadata: {name: ns}}", "{kind: ConfigMap, metadata: {namespace: ns, name: a, finalizers: [example.com/f]}}"},
			second:  "{kind: Namespace, metadata: {name: ns}}"},
		{controller: "garbage-collector-controller", verb: "delete", on: "configmaps", object: "default/one", second: one,
			step: dependent(metav1.DeletePropagationBackground), change: `{"metadata":{"ownerReferences":null}}`},
		{controller: "garbage-collector-controller", verb: "update", on: "configmaps", object: "default/one", second: one, step: dependent(metav1.DeletePropagationOrphan)},
		{controller: "garbage-collector-controller", verb: "update", on: "configmaps", object: "default/owner", second: owner,
			prepare: []string{owner}, step: func(a *arena) { a.delete("configmaps", "default/owner", metav1.DeletePropagationForeground) }},
		{controller: "resourcequota-controller", verb: "update", on: "resourcequotas/status", object: "default/q", follows: true,
			prepare: []string{"{kind: ResourceQuota, metadata: {namespace: default, name: q}, spec: {hard: {configmaps: 10}}}"},
			second:  "{kind: ResourceQuota, metadata: {namespace: default, name: q}, spec: {hard: {secrets: 10}}}"},
		{controller: "clusterrole-aggregation-controller", verb: "patch", on: "clusterroles", object: "/sum",
			prepare: []string{
				"{kind: ClusterRole, metadata: {name: all, labels: {sum: 'yes'}}, rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]}",
				"{kind: ClusterRole, metadata: {name: sum}, aggregationRule: {clusterRoleSelectors: [{matchLabels: {sum: 'yes'}}]}}"},
			second: "{kind: ClusterRole, metadata: {name: sum}}", change: `{"aggregationRule":null}`},
		{controller: "validatingadmissionpolicy-status-controller", verb: "patch", on: "validatingadmissionpolicies/status", object: "/p", follows: true,
			prepare: []string{"{kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}]}, validations: [{expression: 'object.spec > 1'}]}}"},
			second:  "{kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}]}, validations: [{expression: 'true'}]}}"},
		{controller: "root-ca-certificate-publisher-controller", verb: "update", on: "configmaps", object: "default/kube-root-ca.crt", follows: true,
			step:   func(a *arena) { a.patch("configmaps", "default/kube-root-ca.crt", "", `{"data":{"more":"x"}}`) },
			second: "{kind: ConfigMap, metadata: {namespace: default, name: kube-root-ca.crt}}"},
		{controller: "certificatesigningrequest-approving-controller", verb: "update", on: "certificatesigningrequests/approval", object: "/r",
			prepare: []string{node}, second: other, change: fmt.Sprintf(decided, "Denied"), changeOf: "approval"},
		{controller: "certificatesigningrequest-signing-controller", verb: "update", on: "certificatesigningrequests/status", object: "/r",
			prepare: []string{node}, second: other, change: failed, changeOf: "status"},
		{controller: "certificatesigningrequest-cleaner-controller", verb: "delete", on: "certificatesigningrequests", object: "/r",
			prepare: []string{other}, step: later(25 * time.Hour), second: other, change: fmt.Sprintf(decided, "Denied"), changeOf: "approval"},
		{controller: "podcertificaterequest-cleaner-controller", verb: "delete", on: "podcertificaterequests", object: "default/r",
			prepare: []string{podCertificateRequest(t)}, step: later(16 * time.Minute), second: podCertificateRequest(t)},
		{controller: "kube-apiserver-serving-clustertrustbundle-publisher-controller", verb: "delete", on: "clustertrustbundles",
			object: "/kubernetes.io:kube-apiserver-serving:former", prepare: []string{trustBundle(t)}, second: trustBundle(t), follows: true},
		{controller: "persistentvolumeclaim-protection-controller", verb: "update", on: "persistentvolumeclaims", object: "default/c",
			prepare: []string{fmt.Sprintf(claim, "ReadWriteOnce")}, step: remove("persistentvolumeclaims", "default/c"), second: fmt.Sprintf(claim, "ReadOnlyMany")},
		{controller: "persistentvolume-protection-controller", verb: "update", on: "persistentvolumes", object: "/v",
			prepare: []string{fmt.Sprintf(volume, "ReadWriteOnce")}, step: remove("persistentvolumes", "/v"), second: fmt.Sprintf(volume, "ReadOnlyMany"),
			change: `{"status":{"phase":"Bound"}}`, changeOf: "status"},
		{controller: "ttl-after-finished-controller", verb: "delete", on: "jobs", object: "default/j",
			prepare: []string{"{kind: Job, metadata: {namespace: default, name: j}, spec: {ttlSecondsAfterFinished: 0, " + pod + "}}"},
			step:    func(a *arena) { a.patch("jobs", "default/j", "status", finished) },
			second:  "{kind: Job, metadata: {namespace: default, name: j}, spec: {" + pod + "}}", change: `{"spec":{"ttlSecondsAfterFinished":null}}`},
		{controller: "serviceaccount-token-controller", verb: "update", on: "secrets", object: "default/s", prepare: []string{robot, token}, second: opaque,
			change: `{"metadata":{"annotations":{"kubernetes.io/service-account.name":"default"}}}`, follows: true},
		{controller: "serviceaccount-token-controller", verb: "delete", on: "secrets", object: "default/s",
			prepare: []string{token}, second: opaque, change: `{"metadata":{"annotations":{"kubernetes.io/service-account.name":"default"}}}`, follows: true},
		{controller: "serviceaccount-token-controller", verb: "update", on: "serviceaccounts", object: "default/robot",
			prepare: []string{robot, token}, step: func(a *arena) {
				a.has("secrets", "default/s", "data", "token")
				a.delete("secrets", "default/s", metav1.DeletePropagationBackground)
			}, second: "{kind: ServiceAccount, metadata: {namespace: default, name: robot}}", change: `{"secrets":null}`},
		{controller: "token-cleaner-controller", verb: "delete", on: "secrets", object: "kube-system/bootstrap-token-aaaaaa",
			prepare: []string{"{kind: Secret, metadata: {namespace: kube-system, name: bootstrap-token-aaaaaa}, type: bootstrap.kubernetes.io/token, stringData: {expiration: '2026-01-01T00:00:00Z'}}"},
			second:  "{kind: Secret, metadata: {namespace: kube-system, name: bootstrap-token-aaaaaa}, type: bootstrap.kubernetes.io/token}", change: `{"data":null}`},
		{controller: "legacy-serviceaccount-token-cleaner-controller", verb: "patch", on: "secrets", object: "default/s", prepare: []string{robot, token}, step: filled(400 * day), each: day, second: opaque,
			change: `{"metadata":{"labels":{"kubernetes.io/legacy-token-last-used":"2100-01-01"}}}`},
		{controller: "legacy-serviceaccount-token-cleaner-controller", verb: "delete", on: "secrets", object: "default/s",
			prepare: []string{robot, token}, each: day, second: opaque, step: func(a *arena) {
				a.patch("secrets", "default/s", "", `{"metadata":{"labels":{"kubernetes.io/legacy-token-invalid-since":"2020-01-01"}}}`)
				filled(800 * day)(a)
			}, change: `{"metadata":{"labels":{"kubernetes.io/legacy-token-last-used":"2100-01-01"}}}`},
		{controller: "service-cidr-controller", verb: "patch", on: "servicecidrs/status", object: "/r", follows: true,
			prepare: []string{"{kind: ServiceCIDR, metadata: {name: r}, spec: {cidrs: [10.100.0.0/16]}}"}, second: "{kind: ServiceCIDR, metadata: {name: r}, spec: {cidrs: [10.200.0.0/16]}}"},
		{controller: "service-cidr-controller", verb: "update", on: "servicecidrs", object: "/r", follows: true,
			prepare: []string{"{kind: ServiceCIDR, metadata: {name: r}, spec: {cidrs: [10.100.0.0/16]}}"}, second: "{kind: ServiceCIDR, metadata: {name: r}, spec: {cidrs: [10.200.0.0/16]}}"},
		{controller: "volumeattributesclass-protection-controller", verb: "update", on: "volumeattributesclasses", object: "/c",
			step: remove("volumeattributesclasses", "/c"), prepare: []string{fmt.Sprintf(class, "first")}, second: fmt.Sprintf(class, "second")},
		{controller: "storage-version-migrator-controller", verb: "update", on: "storageversionmigrations/status", object: "/m", follows: true,
			prepare: []string{"{kind: StorageVersionMigration, metadata: {name: m}, spec: {resource: {resource: limitranges}}}"},
			second:  "{kind: StorageVersionMigration, metadata: {name: m}, spec: {resource: {resource: podtemplates}}}"},
		{controller: "bootstrap-signer-controller", verb: "update", on: "configmaps", object: "kube-public/cluster-info",
			prepare: []string{
				"{kind: Secret, metadata: {namespace: kube-system, name: bootstrap-token-aaaaaa}, type: bootstrap.kubernetes.io/token, stringData: {token-id: aaaaaa, token-secret: '0123456789abcdef', usage-bootstrap-signing: 'true'}}",
				"{kind: ConfigMap, metadata: {namespace: kube-public, name: cluster-info}, data: {kubeconfig: first}}"},
			second: "{kind: ConfigMap, metadata: {namespace: kube-public, name: cluster-info}}", change: `{"data":null}`},
		{controller: "storageversion-garbage-collector-controller", verb: "delete", on: "storageversions", object: "/test.things", flags: versions,
			prepare: []string{version}, step: func(a *arena) { a.patch("storageversions", "/test.things", "status", told("gone")) }, second: version},
		{controller: "storageversion-garbage-collector-controller", verb: "update", on: "storageversions/status", object: "/test.things", flags: versions,
			prepare: []string{version, "{kind: Lease, metadata: {namespace: kube-system, name: alive, labels: {apiserver.kubernetes.io/identity: kube-apiserver}}}"},
			step:    func(a *arena) { a.patch("storageversions", "/test.things", "status", told("alive", "gone")) }, second: version},
		{controller: "podgroup-protection-controller", verb: "update", on: "podgroups", object: "default/g", flags: groups,
			prepare: []string{fmt.Sprintf(group, 1)}, step: remove("podgroups", "default/g"), second: fmt.Sprintf(group, 2)},
		{controller: "resourcepoolstatusrequest-controller", verb: "update", on: "resourcepoolstatusrequests/status", object: "/r", flags: pools,
			prepare: []string{poolRequest}, second: poolRequest, follows: true},
		{controller: "resourcepoolstatusrequest-controller", verb: "delete", on: "resourcepoolstatusrequests", object: "/r", flags: pools,
			prepare: []string{poolRequest}, step: func(a *arena) {
				a.has("resourcepoolstatusrequests", "/r", "status", "conditions")
				a.clock.Advance(61 * time.Minute)
			}, second: poolRequest, follows: true},
	}
}
