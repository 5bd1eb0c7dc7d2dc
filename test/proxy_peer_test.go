//lint:file-ignore SA1019 Endpoints are deprecated, and services are proxied by them where there are no slices

package test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/internal/wire/egress/egresstest"
	"github.com/kanzen-io/kanzen/test/peer"
)

// page has links of all kinds.
const page = `<!DOCTYPE html><html manifest="/m"><head><title>a &amp; b</title><base href="/base/"></head><body background='/b.png'>
<a href="/x">x</a><a href="y">y</a><a href="//other/z">z</a><a href="http://elsewhere/q">q</a><A HREF="http://10.9.8.7:80/same/">s</A>
<img src="/i.png" usemap="#m" alt="1<2"><form action="/f?a=b&amp;c=d"><input src=/n><script src="/s.js">if (a < b && c) { "</a>" }</script></form>
<!-- <a href="/no"> --><a href="://bad">bad</a><br/></body></html>`

// workload is what requests are proxied to. It tells what it was asked.
func workload(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("X-Own", "kept")
	switch r.URL.Path {
	case "/page", "/page/":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page)
	case "/page.gz":
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		fmt.Fprint(z, page)
		_ = z.Close()
	case "/redirect":
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	case "/fail":
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "no coffee")
	case "/socket":
		conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		for {
			kind, data, err := conn.ReadMessage()
			if err != nil || conn.WriteMessage(kind, data) != nil {
				return
			}
		}
	case "/refused":
		http.Error(w, "not you", http.StatusForbidden)
	default:
		body, _ := io.ReadAll(r.Body)
		h := r.Header.Clone()
		for name := range h {
			if !slices.Contains([]string{"X-Custom", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Uri", "Authorization", "Impersonate-User", "Cookie", "Te"}, name) {
				h.Del(name)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"method": r.Method, "uri": r.RequestURI, "body": string(body), "header": h})
	}
}

// TestProxiesBesidePeer proxies through kanzen and kube-apiserver to the same pod, and compares.
func TestProxiesBesidePeer(t *testing.T) {
	t.Parallel()
	plain, secure := httptest.NewServer(http.HandlerFunc(workload)), httptest.NewTLSServer(http.HandlerFunc(workload))
	defer plain.Close()
	defer secure.Close()
	for scheme, s := range map[string]*httptest.Server{"": plain, "https": secure} {
		t.Run("scheme "+scheme, func(t *testing.T) {
			egress := egresstest.Write(t, map[string]string{"cluster": egresstest.OverUnix(t, s.Listener.Addr().String()).Connection})
			configs := []*rest.Config{serve(t, t.TempDir(), "--egress-selector-config-file="+egress).config(), peer.Start(t, "--egress-selector-config-file="+egress)}
			for _, c := range configs {
				publish(t, kubernetes.NewForConfigOrDie(c))
			}
			compareProxies(t, configs, scheme)
		})
	}
}

// publish makes a pod, a service that leads to it, and a node, with addresses that exist nowhere.
func publish(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	ensureAccount(t, client)
	off, name, number := false, "http", int32(80)
	p, err := client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{
		AutomountServiceAccountToken: &off,
		Containers:                   []corev1.Container{{Name: "a", Image: "none", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}}}, metav1.CreateOptions{})
	must(t, err)
	p.Status.PodIP, p.Status.PodIPs = "10.9.8.7", []corev1.PodIP{{IP: "10.9.8.7"}}
	_, err = client.CoreV1().Pods("default").UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
	must(t, err)
	n, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	must(t, err)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.1.1"}}
	_, err = client.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
	must(t, err)
	_, err = client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: name, Port: 8080}}}}, metav1.CreateOptions{})
	must(t, err)
	target := &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "web"}
	_, err = client.CoreV1().Endpoints("default").Create(t.Context(), &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Subsets: []corev1.EndpointSubset{{
		Addresses: []corev1.EndpointAddress{{IP: "10.9.8.7", TargetRef: target}}, Ports: []corev1.EndpointPort{{Name: name, Port: number}}}}}, metav1.CreateOptions{})
	must(t, err)
	_, err = client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "web", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &number}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.9.8.7"}, TargetRef: target}}}, metav1.CreateOptions{})
	must(t, err)
}

func compareProxies(t *testing.T, configs []*rest.Config, scheme string) {
	t.Helper()
	pod, service, node := "web", "web:8080", "n1:80"
	if scheme != "" {
		pod, service, node = scheme+":web:443", scheme+":web:http", scheme+":n1:443"
	}
	roots := []string{"/api/v1/namespaces/default/pods/" + pod + "/proxy", "/api/v1/namespaces/default/services/" + service + "/proxy", "/api/v1/nodes/" + node + "/proxy"}
	paths := []string{"", "?a=b", "/", "/x/y", "/x/y/", "/x?a=b;c&d=%zz&a=c", "/x%2Fy%20z", "/../../x", "/x//y", "/page", "/page/", "/page.gz", "/fail", "/refused",
		"/redirect?to=/other", "/redirect?to=other", "/redirect?to=" + url.QueryEscape("http://10.9.8.7:80/a/"), "/redirect?to=" + url.QueryEscape("http://evil/a"), "/redirect?to=%3A%2F%2F"}
	for _, root := range roots {
		for _, path := range paths {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
				if method != "GET" && path != "/x/y" && path != "" && path != "/page" {
					continue
				}
				var answers []string
				for _, c := range configs {
					answers = append(answers, proxied(t, c, method, root+path))
				}
				if answers[0] != answers[1] {
					t.Errorf("%s %s\nkanzen %s\npeer   %s", method, root+path, answers[0], answers[1])
				}
			}
		}
		for _, c := range configs {
			throughSocket(t, c, root+"/socket?x=y")
			if got := (question{path: root + "/refused", socket: "x"}).ask(t, c); !strings.HasPrefix(got, "403 not you") {
				t.Errorf("%s: a refused upgrade: %s", c.Host, got)
			}
		}
	}
}

// proxied returns an answer as text.
func proxied(t *testing.T, c *rest.Config, method, path string) string {
	t.Helper()
	transport, err := rest.TransportFor(c)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var body io.Reader
	if method != "GET" && method != "HEAD" {
		body = strings.NewReader("body")
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Host+path, body)
	must(t, err)
	req.Host = "proxy.example"
	req.Header = http.Header{"X-Custom": {"yes"}, "X-Forwarded-For": {"1.2.3.4"}, "X-Forwarded-Uri": {"/lie"}, "X-Forwarded-Host": {"lie"}, "Cookie": {"a=b"}, "Accept-Encoding": {"identity"}}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
			data, _ = io.ReadAll(z)
		}
	}
	var header []string
	for _, name := range []string{"Content-Type", "Content-Encoding", "Location", "X-Own", "Access-Control-Allow-Origin", "Allow"} {
		header = append(header, name+"="+strings.Join(resp.Header[name], ","))
	}
	return fmt.Sprintf("%d %s %v %s", resp.StatusCode, header, err, data)
}

// throughSocket sends a message to an echo.
func throughSocket(t *testing.T, c *rest.Config, path string) {
	t.Helper()
	settings, err := rest.TLSConfigFor(c)
	must(t, err)
	header := http.Header{}
	if c.BearerToken != "" {
		header.Set("Authorization", "Bearer "+c.BearerToken)
	}
	conn, _, err := (&websocket.Dialer{TLSClientConfig: settings}).DialContext(t.Context(), "wss"+strings.TrimPrefix(c.Host, "https")+path, header)
	if err != nil {
		t.Errorf("%s%s: %v", c.Host, path, err)
		return
	}
	defer conn.Close()
	must(t, conn.WriteMessage(websocket.TextMessage, []byte("hello")))
	if _, data, err := conn.ReadMessage(); err != nil || string(data) != "hello" {
		t.Errorf("%s%s: %q, %v", c.Host, path, data, err)
	}
}
