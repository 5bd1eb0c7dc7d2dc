package test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oauth2-proxy/mockoidc"
	admissionreview "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/kanzen-io/kanzen/internal/wire/egress/egresstest"
)

// refuse is a webhook that refuses everything.
func refuse(w http.ResponseWriter, r *http.Request) {
	var review admissionreview.AdmissionReview
	_ = json.NewDecoder(r.Body).Decode(&review)
	review.Response = &admissionreview.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "asked at " + r.Host}}
	_ = json.NewEncoder(w).Encode(review)
}

// outside is what the server of TestEgress connects to.
type outside struct {
	t     *testing.T
	hosts map[string]string // by what is there
}

// file writes one that belongs to the test.
func (o *outside) file(name, text string) string {
	path := filepath.Join(o.t.TempDir(), name)
	must(o.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func (o *outside) serve(name string, h http.HandlerFunc) *httptest.Server {
	s := tlsServer(o.t, h)
	o.hosts[name] = s.Listener.Addr().String()
	return s
}

// webhook serves what a kubeconfig leads to, whose path it returns.
func (o *outside) webhook(name string, h http.HandlerFunc) string {
	s := o.serve(name, h)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return o.file("kubeconfig", fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}],
  clusters: [{name: c, cluster: {server: "%s", certificate-authority-data: %s}}]}`, s.URL, base64.StdEncoding.EncodeToString(ca)))
}

// issuer is an OpenID Connect provider, and the configuration that accepts its
// tokens, fetching its keys through the control plane's proxy.
func (o *outside) issuer() (m *mockoidc.MockOIDC, config string) {
	certs := tlsServer(o.t, http.NotFoundHandler())
	tlsConfig := &tls.Config{Certificates: certs.TLS.Certificates, NextProtos: []string{"http/1.1"}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(o.t, err)
	m, err = mockoidc.NewServer(nil)
	must(o.t, err)
	must(o.t, m.Start(tls.NewListener(l, tlsConfig), tlsConfig))
	o.t.Cleanup(func() { _ = m.Shutdown() })
	o.hosts["issuer"] = l.Addr().String()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certs.Certificate().Raw}))
	return m, o.file("authentication.yaml", fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: %s
    audiences: [a]
    egressSelectorType: controlplane
    certificateAuthority: |
      %s
  claimMappings: {username: {claim: sub, prefix: ""}}
`, m.Issuer(), strings.ReplaceAll(strings.TrimSpace(ca), "\n", "\n      ")))
}

// TestEgress has every connection of the server go through the proxy of its
// network: none of them can be made otherwise but to this machine.
func TestEgress(t *testing.T) {
	t.Parallel()
	type proxy = func(t testing.TB, to string) *egresstest.Proxy
	for name, c := range map[string]struct{ cluster, controlplane, etcd proxy }{
		"HTTP": {egresstest.OverUnix, egresstest.OverTLS, egresstest.OverTCP},
		"GRPC": {egresstest.Konnectivity, egresstest.Konnectivity, egresstest.Konnectivity},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := boxScheme(t)
			must(t, scheme.AddToScheme(s))
			mux := http.NewServeMux()
			mux.Handle("/convert", conversion.NewWebhookHandler(s, conversion.NewRegistry()))
			mux.HandleFunc("/refuse", refuse)
			port, ca := serviceServer(t, net.IPv4(127, 0, 0, 1), "hook.work.svc", mux)
			cluster, controlplane, etcd := c.cluster(t, fmt.Sprintf("127.0.0.1:%d", port)), c.controlplane(t, ""), c.etcd(t, "")
			o := &outside{t: t, hosts: map[string]string{}}
			k := o.start(egresstest.Write(t, map[string]string{"cluster": cluster.Connection, "controlplane": controlplane.Connection, "etcd": etcd.Connection}))
			byURL := o.serve("webhook by URL", refuse)
			admin, err := client.New(k.config(), client.Options{Scheme: s})
			must(t, err)
			testWebhooks(t, admin, ca, byURL)
			for want, asked := range map[string][]string{
				"10.0.0.77:8443": unique(cluster.Asked()), o.hosts["etcd"]: unique(etcd.Asked()),
			} {
				if !slices.Equal(asked, []string{want}) {
					t.Errorf("the proxy before %s was asked for %v", want, asked)
				}
			}
			for name, host := range o.hosts {
				if name == "etcd" {
					continue
				}
				within(t, 20*time.Second, "connecting to "+name, func(context.Context) bool { return slices.Contains(controlplane.Asked(), host) })
			}
		})
	}
}

func unique(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// start starts an etcd, what the server asks, and the server; and is somebody
// whom the token webhook knows and the authorizing webhook allows something.
func (o *outside) start(config string) *kanzen {
	t := o.t
	o.hosts["etcd"] = "127.0.0.1:" + freePort(t)
	etcd, peer := "http://"+o.hosts["etcd"], "http://127.0.0.1:"+freePort(t)
	start(t, link(t, "etcd"), "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peer, "--data-dir="+filepath.Join(t.TempDir(), "etcd"), "--unsafe-no-fsync=true")
	users := o.webhook("token webhook", func(w http.ResponseWriter, r *http.Request) {
		var in authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&in)
		in.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "hook-user"}}
		_ = json.NewEncoder(w).Encode(in)
	})
	permissions := o.webhook("authorizing webhook", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`))
	})
	events := o.webhook("audit webhook", func(http.ResponseWriter, *http.Request) {})
	_, issuers := o.issuer()
	traces, tracing := collect(t, 1e6)
	o.hosts["collector of traces"] = traces.address
	k := serve(t, filepath.Join(t.TempDir(), "data"), "--etcd-servers="+etcd, "--egress-selector-config-file="+config, "--controllers=",
		"--service-cluster-ip-range=10.0.0.0/24", "--authentication-token-webhook-config-file="+users, "--authentication-token-webhook-version=v1",
		"--authorization-mode=RBAC,Webhook", "--authorization-webhook-config-file="+permissions, "--authorization-webhook-version=v1",
		"--audit-policy-file="+o.file("policy.yaml", "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}"),
		"--audit-webhook-config-file="+events, "--audit-webhook-batch-max-wait=10ms", "--authentication-config="+issuers, "--tracing-config-file="+tracing)
	somebody := kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://" + k.address, BearerToken: "any", TLSClientConfig: rest.TLSClientConfig{CAFile: k.config().CAFile, CAData: k.config().CAData}})
	if _, err := somebody.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a user whom webhooks know and allow: %v", err)
	}
	return k
}

// testWebhooks has a webhook behind a service, which leads nowhere, convert and
// refuse, and another at a URL refuse.
func testWebhooks(t *testing.T, c client.Client, ca []byte, byURL *httptest.Server) {
	ctx := t.Context()
	must(t, c.Create(ctx, namespace("work")))
	must(t, c.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook", Namespace: "work"},
		Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.77", Ports: []corev1.ServicePort{{Port: 8443}}}}))
	must(t, c.Create(ctx, boxDefinition(apiextensionsv1.WebhookClientConfig{CABundle: ca,
		Service: &apiextensionsv1.ServiceReference{Namespace: "work", Name: "hook", Path: ptr.To("/convert"), Port: ptr.To[int32](8443)}})))
	within(t, 10*time.Second, "boxes are served", func(ctx context.Context) bool { return c.List(ctx, &boxV2List{}) == nil })
	must(t, c.Create(ctx, box1("a", 3)))
	var hub boxV2
	if must(t, c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "a"}, &hub)); hub.Spec.Length != "3cm" {
		t.Errorf("got %+v", hub.Spec)
	}
	none := admissionv1.SideEffectClassNone
	hook := func(resource string, cc admissionv1.WebhookClientConfig) admissionv1.ValidatingWebhook {
		return admissionv1.ValidatingWebhook{Name: resource + ".example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, ClientConfig: cc,
			Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}}}}}
	}
	url := byURL.URL + "/refuse"
	must(t, c.Create(ctx, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Webhooks: []admissionv1.ValidatingWebhook{
		hook("secrets", admissionv1.WebhookClientConfig{CABundle: ca, Service: &admissionv1.ServiceReference{Namespace: "work", Name: "hook", Path: ptr.To("/refuse"), Port: ptr.To[int32](8443)}}),
		hook("configmaps", admissionv1.WebhookClientConfig{CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: byURL.Certificate().Raw}), URL: &url}),
	}}))
	for _, o := range []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}} {
		o.SetName("x")
		o.SetNamespace("work")
		if err := c.Create(ctx, o); err == nil || !strings.Contains(err.Error(), "denied the request: asked at ") {
			t.Errorf("%T: %v", o, err)
		}
	}
}
