package aggregator_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// An extension server is registered, found, asked, and leaves.
func TestExtensionServer(t *testing.T) {
	s := kanzentest.Start(t)
	got := make(chan *http.Request, 1)
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/namespaces/{ns}/things", func(w http.ResponseWriter, r *http.Request) {
		select {
		case got <- r:
		default:
		}
		writeJSON(w, map[string]string{"kind": "ThingList"})
	})
	e := newExtension(t, s, "good", mux)
	const path = "/apis/ext.test/v1/namespaces/default/things"
	if code, _ := get(t, s, path); code != 404 {
		t.Errorf("%d before anything is registered", code)
	}
	e.register(t, s, "ext.test", "v1")
	if c := awaitCondition(t, s, "v1.ext.test", "Passed"); c.Status != "True" || c.Message != "all checks passed" {
		t.Errorf("%+v", c)
	}
	eventually(t, "discovery", func() bool { return slices.Equal(aggregated(t, s, "ext.test"), []string{"v1 Current things"}) })
	if code, body := get(t, s, "/apis/ext.test"); code != 200 || !strings.Contains(body, `"preferredVersion":{"groupVersion":"ext.test/v1","version":"v1"}`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := get(t, s, "/apis/ext.test/v1"); code != 200 || !strings.Contains(body, `"things/status"`) {
		t.Errorf("the document of the extension server: %d %s", code, body)
	}

	u := &user.DefaultInfo{Name: "jane", UID: "7", Groups: []string{"system:masters", "a b"}, Extra: map[string][]string{"acme.com/x y": {"1", "2"}}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://kanzen"+path+"?limit=5&x=1;y", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{
		"Authorization": {"Bearer secret"}, "X-Remote-User": {"root"}, "X-Remote-Group": {"system:masters"}, "X-Remote-Extra-Evil": {"1"}, "X-Remote-Uid": {"0"},
		"Connection": {"X-Remote-User, X-Remote-Group"}, "Audit-Id": {"the-id"}, "Accept": {"application/json"},
	}
	resp, err := s.Transport(u).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	r := <-got
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || r.TLS.PeerCertificates[0].Subject.CommonName != "front-proxy-client" {
		t.Error("there is no front proxy's certificate")
	}
	if resp.StatusCode != 200 || r.RequestURI != path+"?limit=5" {
		t.Errorf("%s, HTTP/%d %s", resp.Status, r.ProtoMajor, r.RequestURI)
	}
	for name, want := range map[string][]string{
		"X-Remote-User": {"jane"}, "X-Remote-Uid": {"7"}, "X-Remote-Group": {"system:masters", "a b"}, "X-Remote-Extra-Acme.com%2fx%20y": {"1", "2"},
		"X-Remote-Extra-Evil": nil, "Authorization": nil, "Audit-Id": {"the-id"}, "X-Forwarded-Uri": {path},
	} {
		if !slices.Equal(r.Header.Values(name), want) {
			t.Errorf("%s: %q, want %q", name, r.Header.Values(name), want)
		}
	}

	remove(t, s, apiServices+"/v1.ext.test")
	eventually(t, "it has left", func() bool { code, _ := get(t, s, path); return code == 404 })
	if v := aggregated(t, s, "ext.test"); v != nil {
		t.Error(v)
	}
}

// An extension server that says what it serves is in discovery as it says, also while requests are not passed on because
// the check of one of its versions fails. What it does not say is stale, and nothing else.
func TestDiscoveryOfWhatIsNotAvailable(t *testing.T) {
	s := kanzentest.Start(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		_, _ = io.WriteString(w, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":"whole.test"},
			"versions":[{"version":"v1","resources":[{"resource":"things","scope":"Namespaced","verbs":["get"]}]}]}]}`)
	})
	newExtension(t, s, "whole", mux).register(t, s, "whole.test", "v1")
	one := newExtension(t, s, "each", things("each.test", "v1"))
	one.register(t, s, "each.test", "v1")
	one.register(t, s, "each.test", "v2")
	awaitCondition(t, s, "v1.whole.test", "FailedDiscoveryCheck")
	awaitCondition(t, s, "v2.each.test", "FailedDiscoveryCheck")
	eventually(t, "discovery of all at once", func() bool { return slices.Equal(aggregated(t, s, "whole.test"), []string{"v1 Current things"}) })
	eventually(t, "discovery one by one", func() bool {
		got := aggregated(t, s, "each.test")
		slices.Sort(got)
		return slices.Equal(got, []string{"v1 Current things", "v2 Stale "})
	})
	if code, body := get(t, s, "/apis/whole.test/v1"); code != http.StatusServiceUnavailable {
		t.Errorf("what is not available is asked: %d %s", code, body)
	}
}

// A watch is passed on event by event, and ends with its client.
func TestWatchThroughTheProxy(t *testing.T) {
	s := kanzentest.Start(t)
	events, ended := make(chan string), make(chan struct{})
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/things", func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		if r.ProtoMajor != 2 {
			t.Errorf("a watch has a connection of its own: HTTP/%d", r.ProtoMajor)
		}
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case e := <-events:
				_, _ = io.WriteString(w, e)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	newExtension(t, s, "good", mux).register(t, s, "ext.test", "v1")
	awaitCondition(t, s, "v1.ext.test", "Passed")
	awaitServed(t, s, "/apis/ext.test/v1")
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://kanzen/apis/ext.test/v1/things?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Config().Transport.RoundTrip(req) // returns before the first event
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	for _, want := range []string{"one", "two"} {
		events <- want
		if n, err := resp.Body.Read(buf); err != nil || string(buf[:n]) != want {
			t.Errorf("%q, %v", buf[:n], err)
		}
	}
	cancel()
	<-ended
	_ = resp.Body.Close()
}

// An APIService whose service leads nowhere says why, in upstream's words, and is listed all the same.
func TestServiceThatLeadsNowhere(t *testing.T) {
	s := kanzentest.Start(t)
	port := int32(443)
	register := func(service string) {
		made(t, s, apiServices, &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + service + ".test"}, Spec: apiregistrationv1.APIServiceSpec{
			Group: service + ".test", Version: "v1", GroupPriorityMinimum: 2000, VersionPriority: 15, InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: service, Port: &port}}})
	}
	service := func(name string, port int32) {
		made(t, s, "/api/v1/namespaces/default/services", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: port}}}})
	}
	want := func(name, reason, message string) {
		t.Helper()
		if c := awaitCondition(t, s, "v1."+name+".test", reason); c.Status != "False" || c.Message != message {
			t.Errorf("%+v", c)
		}
	}
	register("empty")
	want("empty", "ServiceNotFound", `service/empty in "default" is not present`)
	service("empty", 443)
	want("empty", "EndpointsNotFound", `cannot find endpointslices for service/empty in "default"`)
	made(t, s, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "empty-1", Labels: map[string]string{discoveryv1.LabelServiceName: "empty"}}, AddressType: discoveryv1.AddressTypeIPv4})
	want("empty", "MissingEndpoints", `endpointslices for service/empty in "default" have no addresses with port name "https"`)
	service("port", 444)
	register("port")
	want("port", "ServicePortError", `service/port in "default" is not listening on port 443`)

	if code, body := get(t, s, "/apis"); code != 200 || !strings.Contains(body, `"empty.test/v1"`) {
		t.Errorf("it is not listed: %d %s", code, body)
	}
	if got := aggregated(t, s, "empty.test"); !slices.Equal(got, []string{"v1 Stale "}) {
		t.Errorf("%q", got)
	}
	for _, path := range []string{"/apis/empty.test/v1", "/apis/empty.test/v1/", "/apis/empty.test/v1/things", "/apis/empty.test/v1/namespaces/default/things/x"} {
		code, body := get(t, s, path)
		var st metav1.Status
		if err := json.Unmarshal([]byte(body), &st); err != nil || code != 503 || st.Reason != metav1.StatusReasonServiceUnavailable || !strings.Contains(st.Message, "MissingEndpoints") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if _, body := get(t, s, "/metrics"); !strings.Contains(body, `aggregator_unavailable_apiservice{name="v1.empty.test"} 1`) || !strings.Contains(body, `aggregator_unavailable_apiservice{name="v1.apps"} 0`) {
		t.Error("the metric is missing")
	}
}
