package test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionreview "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
)

// outerAddress is an address of this machine that endpoints may have: not one
// of the loopback interface.
func outerAddress(t *testing.T) net.IP {
	all, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.To4()
		}
	}
	t.Skip("this machine has no address besides its loopback interface's")
	return nil
}

// serviceServer serves a handler on an address of this machine under the name
// of a service, and returns its port and the certificate.
func serviceServer(t *testing.T, ip net.IP, name string, h http.Handler) (port int32, ca []byte) {
	pair := pkitest.Server(t, name)
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	var err error
	s.Listener, err = net.Listen("tcp", net.JoinHostPort(ip.String(), "0"))
	must(t, err)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair.TLS()}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return int32(s.Listener.Addr().(*net.TCPAddr).Port), pair.PEM()
}

// seen is what requests to a path of a webhook brought as credentials.
type seen struct {
	mu    sync.Mutex
	token map[string]string
}

func (s *seen) note(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.token[r.URL.Path] = r.Header.Get("Authorization")
		s.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

func (s *seen) at(path string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, ok := s.token[path]
	return token, ok
}

// TestWebhooksOfServices reaches webhooks by the services that they are behind:
// at the cluster IP, and at an endpoint where the server knows how to route to
// endpoints only. Those of admission get the credentials of its kubeconfig.
func TestWebhooksOfServices(t *testing.T) {
	t.Parallel()
	ip := outerAddress(t)
	for name, endpoints := range map[string]bool{"cluster IP": false, "endpoints": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := boxScheme(t)
			must(t, scheme.AddToScheme(s))
			creds := &seen{token: map[string]string{}}
			mux := http.NewServeMux()
			mux.Handle("/convert", conversion.NewWebhookHandler(s, conversion.NewRegistry()))
			mux.HandleFunc("/refuse", func(w http.ResponseWriter, r *http.Request) {
				var review admissionreview.AdmissionReview
				_ = json.NewDecoder(r.Body).Decode(&review)
				review.Response = &admissionreview.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "asked at " + r.Host}}
				_ = json.NewEncoder(w).Encode(review)
			})
			port, ca := serviceServer(t, ip, "hook.work.svc", creds.note(mux))
			k := serve(t, filepath.Join(t.TempDir(), "data"), "--controllers=", "--enable-aggregator-routing="+strconv.FormatBool(endpoints),
				"--admission-control-config-file", admissionConfig(t), "--service-cluster-ip-range="+(&net.IPNet{IP: ip.Mask(net.CIDRMask(24, 32)), Mask: net.CIDRMask(24, 32)}).String())
			c, err := client.New(k.config(), client.Options{Scheme: s})
			must(t, err)
			ctx := t.Context()
			must(t, c.Create(ctx, namespace("work")))
			// The service's own port is another than that of its endpoints.
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook", Namespace: "work"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 8443}}}}
			if !endpoints {
				svc.Spec.ClusterIP, svc.Spec.Ports[0].Port = ip.String(), port
			}
			must(t, c.Create(ctx, svc))
			must(t, c.Create(ctx, &discoveryv1.EndpointSlice{
				ObjectMeta:  metav1.ObjectMeta{Name: "hook-1", Namespace: "work", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}},
				AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{ip.String()}}},
				Ports: []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: &port}},
			}))
			must(t, c.Create(ctx, boxDefinition(apiextensionsv1.WebhookClientConfig{CABundle: ca,
				Service: &apiextensionsv1.ServiceReference{Namespace: "work", Name: "hook", Path: ptr.To("/convert"), Port: &svc.Spec.Ports[0].Port}})))
			within(t, 10*time.Second, "boxes are served", func(ctx context.Context) bool { return c.List(ctx, &boxV2List{}) == nil })
			must(t, c.Create(ctx, box1("a", 3)))
			var hub boxV2
			if must(t, c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "a"}, &hub)); hub.Spec.Length != "3cm" {
				t.Errorf("got %+v", hub.Spec)
			}
			none := admissionv1.SideEffectClassNone
			refuse := func(resource string, ref *admissionv1.ServiceReference) admissionv1.ValidatingWebhook {
				return admissionv1.ValidatingWebhook{Name: resource + ".example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
					ClientConfig: admissionv1.WebhookClientConfig{Service: ref, CABundle: ca},
					Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create},
						Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}}}}}
			}
			must(t, c.Create(ctx, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Webhooks: []admissionv1.ValidatingWebhook{
				refuse("secrets", &admissionv1.ServiceReference{Namespace: "work", Name: "hook", Path: ptr.To("/refuse"), Port: &svc.Spec.Ports[0].Port}),
				// This server itself: the path is one that a webhook may not be at.
				refuse("configmaps", &admissionv1.ServiceReference{Namespace: "default", Name: "kubernetes", Path: ptr.To("/apis/none.example.com/v1/reviews")}),
			}}))
			err = c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "work"}})
			if err == nil || !strings.Contains(err.Error(), `admission webhook "secrets.example.com" denied the request: asked at hook.work.svc:`) {
				t.Errorf("got %v", err)
			}
			err = c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "work"}})
			if err == nil || !strings.Contains(err.Error(), `failed calling webhook "configmaps.example.com"`) || !strings.Contains(err.Error(), "the server could not find the requested resource") {
				t.Errorf("got %v", err)
			}
			for path, want := range map[string]string{"/refuse": "Bearer for-the-hook", "/convert": ""} {
				if got, ok := creds.at(path); !ok || got != want {
					t.Errorf("%s was asked with %q (%v), want %q", path, got, ok, want)
				}
			}
		})
	}
}

// admissionConfig has a kubeconfig with credentials for the service hook.
func admissionConfig(t *testing.T) string {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	kubeconfig := write("kubeconfig", `{"apiVersion":"v1","kind":"Config","users":[
		{"name":"hook.work.svc:8443","user":{"token":"for-the-hook"}},{"name":"*.work.svc","user":{"token":"of-the-namespace"}},{"name":"*","user":{"token":"for-the-hook"}}]}`)
	return write("admission.yaml", `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AdmissionConfiguration","plugins":[{"name":"ValidatingAdmissionWebhook",
		"configuration":{"apiVersion":"apiserver.config.k8s.io/v1","kind":"WebhookAdmissionConfiguration","kubeConfigFile":"`+kubeconfig+`"}}]}`)
}
