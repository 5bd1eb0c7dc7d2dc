package peers

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// standIn is an API server of the test's own, that is a peer of real ones. It serves things of standin.test/v1, and whatever
// else it says.
type standIn struct {
	*httptest.Server
	t    *testing.T
	etcd *clientv3.Client

	mu     sync.Mutex
	groups []string // of the discovery document
	seen   string   // the headers of the last request
}

const ghost = "apiserver-ghost"

// newStandIn starts one and makes it a member of a cluster, through one of its servers.
func newStandIn(t *testing.T, c *cluster, through *rest.Config, groups ...string) *standIn {
	t.Helper()
	s := &standIn{t: t, groups: groups}
	s.Server = httptest.NewUnstartedServer(s)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{c.serving}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: c.proxies}
	s.StartTLS()
	t.Cleanup(s.Close)
	var err error
	if s.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{c.etcd}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.etcd.Close() })
	host, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	number, _ := strconv.Atoi(port)
	var stored bytes.Buffer
	//lint:ignore SA1019 kube-apiserver stores addresses so
	address := &corev1.Endpoints{TypeMeta: metav1.TypeMeta{Kind: "Endpoints", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"apiserverIdentity": ghost}},
		//lint:ignore SA1019 as above
		Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: host}}, Ports: []corev1.EndpointPort{{Name: "https", Port: int32(number), Protocol: "TCP"}}}}}
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(runtime.Object(address), &stored); err != nil {
		t.Fatal(err)
	}
	if _, err := s.etcd.Put(t.Context(), "/registry/peerserverleases/"+ghost, stored.String()); err != nil {
		t.Fatal(err)
	}
	made := ask(t, through, "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
		`{"metadata":{"name":"`+ghost+`","labels":{"apiserver.kubernetes.io/identity":"kube-apiserver"}},"spec":{"holderIdentity":"ghost_1","leaseDurationSeconds":3600,"renewTime":"2100-01-01T00:00:00.000000Z"}}`)
	if made.code != http.StatusCreated {
		t.Fatal(made)
	}
	return s
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/api" || r.URL.Path == "/apis":
		s.mu.Lock()
		defer s.mu.Unlock()
		w.Header().Set("Content-Type", aggregatedType)
		var items []string
		for _, g := range s.groups {
			if r.URL.Path == "/apis" {
				items = append(items, `{"metadata":{"name":"`+g+`"},"versions":[{"version":"v1","resources":[{"resource":"things","responseKind":{"group":"","version":"","kind":"Thing"},"scope":"Namespaced","singularResource":"thing","verbs":["list"]}]}]}`)
			}
		}
		fmt.Fprintf(w, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[%s]}`, strings.Join(items, ","))
	case strings.HasSuffix(r.URL.Path, "/redirect"):
		http.Redirect(w, r, "https://elsewhere.test/", http.StatusFound)
	case strings.HasSuffix(r.URL.Path, "/cut"):
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "part")
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = saw(r)
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("X-Own", "1")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "thing")
	}
}

// saw is a request as the stand-in sees it.
func saw(r *http.Request) string {
	var out []string
	for name, values := range r.Header {
		switch name {
		case "Audit-Id", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Uri", "X-Forwarded-Proto", "Accept-Encoding", "User-Agent":
		default:
			out = append(out, fmt.Sprint(name, values))
		}
	}
	slices.Sort(out)
	return fmt.Sprint(r.Method, " ", r.URL, " ", out)
}

// TestStandIn has a stand-in for another server show what it is sent, and what becomes of its answers and of its end.
func TestStandIn(t *testing.T) {
	want := ofPeers(t, "standin", func() facts { return withStandIn(t, kube) })
	t.Run(kanzen, func(t *testing.T) { compare(t, withStandIn(t, kanzen), want) })
}

func withStandIn(t *testing.T, kind string) facts {
	t.Helper()
	c, f := newCluster(t), facts{}
	server := c.start(t, kind, "a")
	const things, owned = "/apis/standin.test/v1/namespaces/default/things", "/apis/owned.test/v1/namespaces/default/things"
	define(t, server)
	s := newStandIn(t, c, server, "standin.test", "owned.test")
	within(t, "things are passed on", func() bool { return ask(t, server, "GET", things, "").code == http.StatusTeapot })
	seen := func(a answer) string {
		s.mu.Lock()
		defer s.mu.Unlock()
		defer func() { s.seen = "" }()
		return a.String() + "\n" + s.seen
	}
	f.add("a request", seen(ask(t, server, "GET", things+"?limit=5&b=%2F+x", "", "Accept", "text/plain", "X-Client", "a", "Cookie", "c=d")))
	f.add("a body", seen(ask(t, server, "POST", things, `{}`)))
	f.add("what a client says of itself", seen(ask(t, server, "GET", things, "", "X-Remote-User", "root", "X-Remote-Group", "system:masters",
		"X-Remote-Extra-A", "b", "X-Remote-Uid", "0", "Impersonate-User", "ask1", "Impersonate-Extra-A", "c")))
	f.add("not allowed", seen(ask(t, as(server, "ask0"), "GET", things, "")))
	f.add("passed on before", seen(ask(t, server, "GET", things, "", "X-Kubernetes-Peer-Proxied", "true")))
	f.add("another resource", seen(ask(t, server, "GET", "/apis/standin.test/v1/others", "")))
	f.add("another version", seen(ask(t, server, "GET", "/apis/standin.test/v2/namespaces/default/things", "")))
	f.add("a resource that is defined here", seen(ask(t, server, "GET", owned, "")))
	f.add("its documents", groups(t, server, "/apis", aggregatedType) == groups(t, server, "/apis", aggregatedType+";profile=nopeer"))
	f.add("a redirect", ask(t, server, "GET", things+"/redirect", "").code)
	f.add("an answer that is cut off", cut(t, server, things+"/cut"))
	if gone := ask(t, server, "DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.owned.test", ""); gone.code != http.StatusOK {
		t.Fatal(gone)
	}
	within(t, "the definition is gone", func() bool {
		return ask(t, server, "GET", "/apis/owned.test/v1/namespaces/default/gadgets", "").code == http.StatusNotFound
	})
	f.add("a resource that was defined here", seen(ask(t, server, "GET", owned, "")))
	s.Close()
	f.add("a server that is down", ask(t, server, "GET", things, "").code)
	if _, err := s.etcd.Delete(t.Context(), "/registry/peerserverleases/"+ghost); err != nil {
		t.Fatal(err)
	}
	within(t, "the address is unknown", func() bool { return strings.Contains(ask(t, server, "GET", things, "").body, "Error getting ip") })
	f.add("a server without an address", ask(t, server, "GET", things, ""))
	ask(t, server, "DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+ghost, "")
	within(t, "it is forgotten", func() bool { return ask(t, server, "GET", things, "").code == http.StatusNotFound })
	f.add("a server that is gone", ask(t, server, "GET", things, ""))
	// kube-apiserver does not count what was cut off.
	f.add("metrics", strings.Replace(metrics(t, server), `apiserver_rerouted_request_total{code="200",group="standin.test",resource="things",version="v1"}`+"\n", "", 1))
	return f
}

// define makes a definition of a group that the stand-in serves too, and waits until it is served.
func define(t *testing.T, c *rest.Config) {
	t.Helper()
	made := ask(t, c, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"gadgets.owned.test"},"spec":{"group":"owned.test","scope":"Namespaced","names":{"plural":"gadgets","kind":"Gadget"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	if made.code != http.StatusCreated {
		t.Fatal(made)
	}
	within(t, "gadgets are served", func() bool {
		return ask(t, c, "GET", "/apis/owned.test/v1/namespaces/default/gadgets", "").code == http.StatusOK
	})
	within(t, "the group is registered", func() bool {
		return ask(t, c, "GET", "/apis/apiregistration.k8s.io/v1/apiservices/v1.owned.test", "").code == http.StatusOK
	})
}

// cut is whether a client notices that an answer is not whole.
func cut(t *testing.T, c *rest.Config, path string) bool {
	t.Helper()
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), "GET", c.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := h.Do(req)
	if err != nil {
		return true
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(resp.Body)
	return err != nil
}
