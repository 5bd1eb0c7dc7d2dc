//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// certManager is of the last minor version whose programs are in its module. Those of later ones are in modules that cannot be had by themselves,
// because their go.mod names other paths than theirs.
var certManager = operator{
	name:    "cert-manager",
	modules: []module{{path: "github.com/cert-manager/cert-manager@v1.11.5"}},
	programs: map[string]string{
		"cert-manager-controller": "./cmd/controller", "cert-manager-webhook": "./cmd/webhook", "cert-manager-cainjector": "./cmd/cainjector",
	},
	install: installCertManager,
	leftOut: map[string]string{"ACME": "it needs an authority on the network, and a way from there", "startupapicheck": "a job of the chart that does what the first steps do"},
	steps: []step{
		{"cainjector writes the webhook's authority into its configurations", injected("cert-manager-webhook")},
		{"a self-signed issuer becomes ready", selfSignedIssuer},
		{"a self-signed authority is issued", authorityIssued},
		{"an issuer of this authority issues a certificate with a valid chain", leafIssued},
		{"cainjector writes the authority into the configuration of somebody else's webhook", injectedElsewhere},
		{"the webhook refuses an issuer of two kinds", refusesIssuer},
		{"the webhook notes who made a request, which then keeps its spec", requestKeepsSpec},
		{"only who may approve requests of an issuer approves one", approvalNeedsRights},
		{"a request that is denied is not signed", deniedIsNotSigned},
		{"a certificate is renewed", renewed},
		{"a changed certificate is issued anew", changedIsIssued},
		{"a secret that was deleted is issued again", deletedIsIssued},
		{"an ingress gets a certificate, and takes it along", ingressShim},
	},
}

const certVersion = "cert-manager.io/v1"

// installCertManager does what the Makefile of cert-manager does with its chart: it puts the version and the definitions in.
func installCertManager(ctx context.Context, w *world) error {
	chart := filepath.Join(w.l.Run(), "chart")
	if err := os.CopyFS(chart, os.DirFS(filepath.Join(w.source, "deploy/charts/cert-manager"))); err != nil {
		return err
	}
	template, err := w.files("deploy/charts/cert-manager/Chart.template.yaml")
	if err != nil {
		return err
	}
	template = strings.ReplaceAll(template, "v0.1.0", w.operator.version())
	if err := os.WriteFile(filepath.Join(chart, "Chart.yaml"), []byte(template), 0o644); err != nil {
		return err
	}
	definitions, err := w.files("deploy/crds")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(chart, "templates", "crds.yaml"), []byte(definitions), 0o644); err != nil {
		return err
	}
	manifests, err := w.chart(ctx, chart, "cert-manager", "cert-manager", "{startupapicheck: {enabled: false}}")
	if err != nil {
		return err
	}
	if err := w.install(ctx, "cert-manager", namespaceOf("cert-manager")+namespaceOf("shop")+elsewhereIssuer+manifests); err != nil {
		return err
	}
	return w.available(ctx, "cert-manager")
}

// injected waits until the webhook configurations of a name have an authority.
func injected(name string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
			if err := w.until(ctx, key{"admissionregistration.k8s.io/v1", kind, name}, hasAuthority); err != nil {
				return err
			}
		}
		return nil
	}
}

func hasAuthority(u *unstructured.Unstructured) error {
	hooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
	for _, h := range hooks {
		bundle, _, _ := unstructured.NestedString(h.(map[string]any), "clientConfig", "caBundle")
		b, err := base64.StdEncoding.DecodeString(bundle)
		if err != nil {
			return err
		}
		if !x509.NewCertPool().AppendCertsFromPEM(b) {
			return errors.New("a webhook has no authority")
		}
	}
	return nil
}

func selfSignedIssuer(ctx context.Context, w *world) error {
	// The configurations have the authority; until the server has seen them, it does not trust the webhook.
	if err := w.eventually(ctx, "create an issuer", func(ctx context.Context) error {
		return w.apply(ctx, "shop", "apiVersion: cert-manager.io/v1\nkind: Issuer\nmetadata: {name: self}\nspec: {selfSigned: {}}")
	}); err != nil {
		return err
	}
	return w.until(ctx, key{certVersion, "Issuer", "shop/self"}, condition("Ready", "True"))
}

func authorityIssued(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "shop", `
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: root}
spec:
  isCA: true
  commonName: shop root
  secretName: root
  privateKey: {algorithm: ECDSA, size: 256}
  issuerRef: {name: self, kind: Issuer, group: cert-manager.io}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: root}
spec: {ca: {secretName: root}}`); err != nil {
		return err
	}
	if err := w.until(ctx, key{certVersion, "Certificate", "shop/root"}, condition("Ready", "True")); err != nil {
		return err
	}
	return w.until(ctx, key{certVersion, "Issuer", "shop/root"}, condition("Ready", "True"))
}

const leaf = `
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: site}
spec:
  secretName: site
  dnsNames: [%s]
  duration: 24h
  renewBefore: 1h
  privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Always}
  issuerRef: {name: root}`

func leafIssued(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "shop", fmt.Sprintf(leaf, "www.example.com")); err != nil {
		return err
	}
	if err := w.until(ctx, site, both(condition("Ready", "True"), value("status.revision", 1))); err != nil {
		return err
	}
	s, err := w.secret(ctx, "shop", "site")
	if err != nil {
		return err
	}
	_, err = chainOf(s, "www.example.com")
	return err
}

var site = key{certVersion, "Certificate", "shop/site"}

// chainOf is the certificate of a secret, which is valid for a name, has its key beside it, and is signed by the authority that is beside it.
func chainOf(s *corev1.Secret, name string) (*x509.Certificate, error) {
	pair, err := tls.X509KeyPair(s.Data["tls.crt"], s.Data["tls.key"])
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(s.Data["ca.crt"]) {
		return nil, errors.New("the secret has no authority")
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
	return pair.Leaf, err
}

func injectedElsewhere(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "shop", `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: other
  annotations: {cert-manager.io/inject-ca-from: shop/site}
webhooks:
- name: other.example.com
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {url: "https://other.example.com"}
  rules: [{apiGroups: [example.com], apiVersions: [v1], resources: [none], operations: [CREATE]}]`); err != nil {
		return err
	}
	s, err := w.secret(ctx, "shop", "site")
	if err != nil {
		return err
	}
	return w.until(ctx, key{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "other"}, func(u *unstructured.Unstructured) error {
		hooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
		bundle, _, _ := unstructured.NestedString(hooks[0].(map[string]any), "clientConfig", "caBundle")
		if b, err := base64.StdEncoding.DecodeString(bundle); err != nil || !bytes.Equal(b, s.Data["ca.crt"]) {
			return fmt.Errorf("the authority is %q", bundle)
		}
		return nil
	})
}

func refusesIssuer(ctx context.Context, w *world) error {
	return w.refused(ctx, "shop", "apiVersion: cert-manager.io/v1\nkind: Issuer\nmetadata: {name: bad}\nspec: {selfSigned: {}, ca: {secretName: root}}", "may not specify more than one issuer type")
}

// request is a request for a certificate from an issuer that is nobody's, so that nobody approves it but users.
func request(name, issuer string) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"a.example.com"}}, key)
	if err != nil {
		return "", err
	}
	text := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	return fmt.Sprintf("apiVersion: cert-manager.io/v1\nkind: CertificateRequest\nmetadata: {name: %s}\nspec: {request: %s, issuerRef: %s}", name, text, issuer), nil
}

// elsewhere is an issuer of another project. cert-manager may not approve requests for it.
const (
	elsewhere       = "{name: other, kind: Issuer, group: example.com}"
	elsewhereIssuer = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: issuers.example.com}
spec:
  group: example.com
  names: {kind: Issuer, plural: issuers}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`
)

func requestKeepsSpec(ctx context.Context, w *world) error {
	text, err := request("mine", elsewhere)
	if err != nil {
		return err
	}
	if err := w.apply(ctx, "shop", text); err != nil {
		return err
	}
	if err := w.until(ctx, key{certVersion, "CertificateRequest", "shop/mine"}, value("spec.username", "kubernetes-admin")); err != nil {
		return err
	}
	other, err := request("mine", elsewhere)
	if err != nil {
		return err
	}
	return w.refused(ctx, "shop", other, "cannot change spec after creation")
}

// approve sets a condition of a request as a client.
func approve(ctx context.Context, c client.Client, name, kind string) error {
	u := key{certVersion, "CertificateRequest", "shop/" + name}.named()
	if err := c.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		return err
	}
	now := time.Now().UTC().Format(time.RFC3339)
	conditions := []any{map[string]any{"type": kind, "status": "True", "reason": "Test", "message": "by a user", "lastTransitionTime": now}}
	if err := unstructured.SetNestedSlice(u.Object, conditions, "status", "conditions"); err != nil {
		return err
	}
	return c.Status().Update(ctx, u)
}

// as is a client of another user.
func (w *world) as(user string) (client.Client, error) {
	c := rest.CopyConfig(w.config)
	c.Impersonate = rest.ImpersonationConfig{UserName: user}
	return client.New(c, client.Options{Scheme: w.client.Scheme(), Mapper: w.client.RESTMapper()})
}

func approvalNeedsRights(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "shop", `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: requests}
rules:
- {apiGroups: [cert-manager.io], resources: [certificaterequests, certificaterequests/status], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: requests}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: requests}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: approve}
rules:
- {apiGroups: [cert-manager.io], resources: [signers], verbs: [approve], resourceNames: [issuers.example.com/*]}`); err != nil {
		return err
	}
	ann, err := w.as("ann")
	if err != nil {
		return err
	}
	if err := w.eventually(ctx, "ann reads requests", func(ctx context.Context) error {
		return ann.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "mine"}, key{certVersion, "CertificateRequest", "shop/mine"}.named())
	}); err != nil {
		return err
	}
	if err := refusedWith(approve(ctx, ann, "mine", "Approved"), "does not have permissions to set approved/denied conditions"); err != nil {
		return err
	}
	if err := w.apply(ctx, "shop", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: approve}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: approve}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]`); err != nil {
		return err
	}
	return w.eventually(ctx, "ann's approval", func(ctx context.Context) error { return approve(ctx, ann, "mine", "Approved") })
}

func deniedIsNotSigned(ctx context.Context, w *world) error {
	text, err := request("denied", elsewhere)
	if err != nil {
		return err
	}
	if err := w.apply(ctx, "shop", text); err != nil {
		return err
	}
	if err := approve(ctx, w.client, "denied", "Denied"); err != nil {
		return err
	}
	return refusedWith(approve(ctx, w.client, "denied", "Approved"), "condition")
}

// renewed asks for a renewal as cmctl does.
func renewed(ctx context.Context, w *world) error {
	before, err := w.secret(ctx, "shop", "site")
	if err != nil {
		return err
	}
	old, err := chainOf(before, "www.example.com")
	if err != nil {
		return err
	}
	u, err := w.get(ctx, site)
	if err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	now := time.Now().UTC().Format(time.RFC3339)
	conditions = append(conditions, map[string]any{"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by a user", "lastTransitionTime": now})
	if err := unstructured.SetNestedSlice(u.Object, conditions, "status", "conditions"); err != nil {
		return err
	}
	if err := w.client.Status().Update(ctx, u); err != nil {
		return err
	}
	return w.issued(ctx, old, "www.example.com", 2)
}

// issued waits until a certificate has another revision and its secret another certificate.
func (w *world) issued(ctx context.Context, old *x509.Certificate, name string, revision int) error {
	if err := w.until(ctx, site, both(condition("Ready", "True"), value("status.revision", revision))); err != nil {
		return err
	}
	s, err := w.secret(ctx, "shop", "site")
	if err != nil {
		return err
	}
	now, err := chainOf(s, name)
	if err == nil && now.SerialNumber.Cmp(old.SerialNumber) == 0 {
		err = errors.New("the certificate is the same")
	}
	return err
}

func (w *world) current(ctx context.Context, name string) (*x509.Certificate, error) {
	s, err := w.secret(ctx, "shop", "site")
	if err != nil {
		return nil, err
	}
	return chainOf(s, name)
}

func changedIsIssued(ctx context.Context, w *world) error {
	old, err := w.current(ctx, "www.example.com")
	if err != nil {
		return err
	}
	if err := w.apply(ctx, "shop", fmt.Sprintf(leaf, "www.example.com, shop.example.com")); err != nil {
		return err
	}
	return w.issued(ctx, old, "shop.example.com", 3)
}

func deletedIsIssued(ctx context.Context, w *world) error {
	old, err := w.current(ctx, "shop.example.com")
	if err != nil {
		return err
	}
	if err := w.delete(ctx, key{"v1", "Secret", "shop/site"}); err != nil {
		return err
	}
	if err := w.until(ctx, key{"v1", "Secret", "shop/site"}, func(*unstructured.Unstructured) error { return nil }); err != nil {
		return err
	}
	return w.issued(ctx, old, "shop.example.com", 4)
}

func ingressShim(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "shop", `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  annotations: {cert-manager.io/issuer: root}
spec:
  tls: [{hosts: [web.example.com], secretName: web}]
  rules:
  - host: web.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}`); err != nil {
		return err
	}
	certificate := key{certVersion, "Certificate", "shop/web"}
	if err := w.until(ctx, certificate, condition("Ready", "True")); err != nil {
		return err
	}
	s, err := w.secret(ctx, "shop", "web")
	if err != nil {
		return err
	}
	if _, err := chainOf(s, "web.example.com"); err != nil {
		return err
	}
	if err := w.delete(ctx, key{"networking.k8s.io/v1", "Ingress", "shop/web"}); err != nil {
		return err
	}
	return w.gone(ctx, certificate)
}
