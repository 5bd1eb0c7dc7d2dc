package webhook

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
)

// endpoints is a Resolver whose service is at an address that the test chooses.
type endpoints struct{ address string }

func (e *endpoints) Resolve(context.Context, string, string, int32) (string, error) {
	return e.address, nil
}

// TestByEndpoint moves a service from one endpoint to another while a connection to the former is kept alive.
func TestByEndpoint(t *testing.T) {
	pair := pkitest.Server(t, "hook.test.svc")
	backend := func(name string) string {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(name + " " + r.Host)) }))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{pair.TLS()}}
		s.StartTLS()
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "https://")
	}
	former, current := backend("former"), backend("current")
	for byEndpoint, want := range map[bool]string{true: "current", false: "former"} {
		service := &endpoints{former}
		clients := NewClients(Credentials{}, Dialers{}, service, nil)
		clients.ByEndpoint = byEndpoint
		defer clients.Close()
		post := func(want string) {
			t.Helper()
			got, err := clients.Post(t.Context(), &admissionv1.WebhookClientConfig{CABundle: pair.PEM(), Service: &admissionv1.ServiceReference{Namespace: "test", Name: "hook"}}, []byte("{}"))
			if err != nil || string(got) != want+" hook.test.svc:443" {
				t.Errorf("by endpoint %t: %q %v, want %s", byEndpoint, got, err, want)
			}
		}
		post("former")
		service.address = current
		post(want)
	}
}
