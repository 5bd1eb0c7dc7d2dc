package aggregator_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

const apiServices = "/apis/apiregistration.k8s.io/v1/apiservices"

// extension is an extension server behind a service "NAME" in the namespace default.
type extension struct {
	name    string
	port    int32
	ca      []byte
	handler atomic.Pointer[http.Handler]
	server  *httptest.Server
	// connections counts those that were opened. With http1Only, they speak HTTP/1.1.
	connections atomic.Int64
	http1Only   atomic.Bool
}

// newExtension starts an extension server and creates its service. Its certificate is for the service, unless it is for
// other hosts.
func newExtension(t testing.TB, s *kanzentest.Server, name string, h http.Handler, hosts ...string) *extension {
	t.Helper()
	if len(hosts) == 0 {
		hosts = []string{name + ".default.svc"}
	}
	pair := pkitest.Server(t, hosts...)
	e := &extension{name: name, ca: pair.PEM()}
	e.handler.Store(&h)
	e.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*e.handler.Load()).ServeHTTP(w, r) }))
	e.server.EnableHTTP2 = true
	e.server.TLS = &tls.Config{Certificates: []tls.Certificate{pair.TLS()}, ClientAuth: tls.RequestClientCert}
	http1 := &tls.Config{Certificates: e.server.TLS.Certificates, ClientAuth: tls.RequestClientCert, NextProtos: []string{"http/1.1"}}
	e.server.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if e.http1Only.Load() {
			return http1, nil
		}
		return nil, nil // as it is
	}
	e.server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			e.connections.Add(1)
		}
	}
	e.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	e.server.StartTLS()
	t.Cleanup(e.server.Close)
	e.port = int32(e.server.Listener.Addr().(*net.TCPAddr).Port)
	made(t, s, "/api/v1/namespaces/default/services", &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}})
	return e
}

// serve registers ext.test/v1, and waits until it is served.
func (e *extension) serve(t testing.TB, s *kanzentest.Server) {
	t.Helper()
	e.register(t, s, "ext.test", "v1")
	awaitCondition(t, s, "v1.ext.test", "Passed")
	awaitServed(t, s, "/apis/ext.test/v1")
}

// register creates an APIService of the extension server.
func (e *extension) register(t testing.TB, s *kanzentest.Server, group, version string) {
	t.Helper()
	made(t, s, apiServices, e.apiService(group, version))
}

func (e *extension) apiService(group, version string) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: version + "." + group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: group, Version: version, GroupPriorityMinimum: 2000, VersionPriority: 15, CABundle: e.ca,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: e.name, Port: &e.port},
		},
	}
}

// things is a handler that serves a resource "things" in one group and version, with legacy discovery only.
func things(group, version string) *http.ServeMux {
	mux := http.NewServeMux()
	gv := group + "/" + version
	mux.HandleFunc("GET /apis/"+gv, func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv, APIResources: []metav1.APIResource{
			{Name: "things", SingularName: "thing", Namespaced: true, Kind: "Thing", Verbs: metav1.Verbs{"get", "list", "watch", "create", "delete", "deletecollection"}},
			{Name: "things/status", Namespaced: true, Kind: "Thing", Verbs: metav1.Verbs{"get"}},
		}})
	})
	return mux
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// ask sends a request as the administrator.
func ask(t testing.TB, s *kanzentest.Server, method, path, contentType, body string) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://kanzen"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := s.Config().Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(data)
}

// get returns the status and body of a GET request of the administrator.
func get(t testing.TB, s *kanzentest.Server, path string) (int, string) {
	t.Helper()
	resp, body := ask(t, s, http.MethodGet, path, "", "")
	return resp.StatusCode, body
}

func made(t testing.TB, s *kanzentest.Server, path string, obj any) {
	t.Helper()
	b, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	if resp, answer := ask(t, s, "POST", path, "application/json", string(b)); resp.StatusCode != http.StatusCreated {
		t.Fatalf("POST %s: %d %s", path, resp.StatusCode, answer)
	}
}

func remove(t testing.TB, s *kanzentest.Server, path string) {
	t.Helper()
	if resp, answer := ask(t, s, "DELETE", path, "application/json", ""); resp.StatusCode != http.StatusOK {
		t.Fatalf("DELETE %s: %d %s", path, resp.StatusCode, answer)
	}
}

// awaitCondition watches an APIService until its condition has a reason, and returns the condition.
func awaitCondition(t testing.TB, s *kanzentest.Server, name, reason string) apiregistrationv1.APIServiceCondition {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://kanzen"+apiServices+"?watch=1&fieldSelector=metadata.name%3D"+name, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Config().Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var last apiregistrationv1.APIServiceCondition
	for events := json.NewDecoder(resp.Body); ; {
		var event struct{ Object apiregistrationv1.APIService }
		if err := events.Decode(&event); err != nil {
			t.Fatalf("%s: %v; the last condition is %+v", name, err, last)
		}
		for _, c := range event.Object.Status.Conditions {
			if last = c; c.Reason == reason {
				return c
			}
		}
	}
}

// eventually waits for what another goroutine of the server does.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came about: %s", what)
		}
	}
}

// awaitServed waits until requests are passed on.
func awaitServed(t testing.TB, s *kanzentest.Server, path string) {
	t.Helper()
	eventually(t, path+" is served", func() bool { code, _ := get(t, s, path); return code == http.StatusOK })
}

// aggregated returns the versions of a group in the aggregated discovery document, as "version freshness resources".
func aggregated(t testing.TB, s *kanzentest.Server, group string) []string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://kanzen/apis", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	resp, err := s.Config().Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct {
		Items []struct {
			Metadata metav1.ObjectMeta
			Versions []struct {
				Version, Freshness string
				Resources          []struct{ Resource string }
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, g := range list.Items {
		for _, v := range g.Versions {
			if g.Metadata.Name == group {
				var names []string
				for _, r := range v.Resources {
					names = append(names, r.Resource)
				}
				out = append(out, fmt.Sprint(v.Version, " ", v.Freshness, " ", strings.Join(names, ",")))
			}
		}
	}
	return out
}

func patch(t testing.TB, s *kanzentest.Server, path, body string) {
	t.Helper()
	if resp, answer := ask(t, s, "PATCH", path, "application/merge-patch+json", body); resp.StatusCode != http.StatusOK {
		t.Fatalf("PATCH %s: %d %s", path, resp.StatusCode, answer)
	}
}

// restTransport returns a transport of the administrator to the server's port.
func restTransport(s *kanzentest.Server) (http.RoundTripper, error) {
	return rest.TransportFor(s.SocketConfig())
}
