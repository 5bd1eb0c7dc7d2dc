//lint:file-ignore SA1019 Endpoints are deprecated, and services are proxied by them where there are no slices

package test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/test/peer"
	"github.com/kanzen-io/kanzen/test/standin"
)

// TestStreamsBesidePeer asks kanzen and kube-apiserver the same, in front of one kubelet, and compares the answers.
func TestStreamsBesidePeer(t *testing.T) {
	t.Parallel()
	there := peer.Start(t)
	kubelet := standin.Start(t, "n1")
	here := serve(t, t.TempDir())
	configs := []*rest.Config{here.config(), there}
	for _, c := range configs {
		client := kubernetes.NewForConfigOrDie(c)
		kubelet.Register(t, client)
		furnish(t, client, kubelet)
	}
	fail := func(code int, text string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
			return true
		}
	}
	const pod = "/api/v1/namespaces/default/pods/"
	asks := []question{
		{path: pod + "web/exec?command=true&stdout=1"},
		{path: pod + "web/exec?command=true&stdout=1", method: "POST"},
		{path: pod + "web/exec?stdout=1&container=none", upgrade: true},
		{path: pod + "two/exec?stdout=1", upgrade: true},
		{path: pod + "none/exec?stdout=1", upgrade: true},
		{path: pod + "homeless/exec?stdout=1", upgrade: true},
		{path: pod + "homeless/attach?stdout=1", upgrade: true},
		{path: pod + "homeless/portforward", upgrade: true},
		{path: pod + "homeless/log"},
		// What is missing is the node, and not a pod of that name.
		{path: pod + "lost/exec?stdout=1", upgrade: true, better: `404 application/json "" {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"nodes \"gone\" not found"`},
		{path: pod + "lost/log", better: `nodes \"gone\" not found`},
		{path: pod + "noaddress/log"},
		{path: pod + "closed/log"},
		{path: pod + "closed/exec?stdout=1", upgrade: true},
		{path: pod + "closed/exec?stdout=1", socket: "v5.channel.k8s.io", better: "Internal error occurred: error dialing backend: dial tcp 127.0.0.1:1: connect: connection refused"}, // as by SPDY
		{path: pod + "closed/exec?stdout=1", socket: "v4.channel.k8s.io"},
		{path: pod + "closed/portforward?ports=80", socket: "SPDY/3.1+portforward.k8s.io"},
		{path: pod + "web/exec", upgrade: true}, // refused by the kubelet: no stream is asked for
		{path: pod + "web/exec", socket: "v5.channel.k8s.io"},
		{path: pod + "web/exec", socket: "v4.channel.k8s.io"},
		{path: pod + "web/exec?stdout=1&command=echo&command=x", socket: "v4.channel.k8s.io"},
		{path: pod + "web/exec?stdout=1&command=echo&command=x", socket: "channel.k8s.io"},
		{path: pod + "web/exec?stdout=1&command=echo&command=x", socket: "base64.channel.k8s.io"},
		{path: pod + "web/exec?stdout=1&command=echo&command=x", socket: "v5.channel.k8s.io"},
		{path: pod + "web/exec?stderr=1&command=sh&command=-c&command=" + url.QueryEscape("echo x >&2; exit 9"), socket: "v5.channel.k8s.io"},
		{path: pod + "web/exec?stdout=1&command=no-such", socket: "v5.channel.k8s.io"},
		{path: pod + "web/exec?stdout=1", socket: "v9.channel.k8s.io"},
		// The peer loses a log that comes together with its end.
		{path: pod + "web/log", socket: "binary.k8s.io", better: `2:"" 2:"one\ntwo\n" websocket: close 1000`},
		{path: pod + "web/log", socket: "base64.binary.k8s.io", better: `1:"" 1:"b25lCnR3bwo=" websocket: close 1000`},
		{path: pod + "web/log?tailLines=-1"},
		{path: pod + "web/log?tailLines=x"},
		{path: pod + "none/log?tailLines=-1"},
		{path: pod + "web/log?limitBytes=0"},
		{path: pod + "web/log?sinceSeconds=0"},
		{path: pod + "web/log?stream=Stdout"},
		{path: pod + "web/log?container=none"},
		{path: pod + "two/log"},
		{path: pod + "web/log?previous=true"},
		{path: pod + "web/log?follow=true&tailLines=1"},
		{path: pod + "web/log"},
		{path: pod + "web/log", kubelet: fail(500, "broken")},
		{path: pod + "web/log", kubelet: fail(404, "none")},
		{path: pod + "web/log", kubelet: fail(403, "no")},
		{path: pod + "web/log", kubelet: fail(302, "there")},
		{path: pod + "web/log", kubelet: fail(206, "part")},
		{path: pod + "web/exec?stdout=1", upgrade: true, kubelet: fail(500, "broken")},
		{path: pod + "web/exec?stdout=1", upgrade: true, kubelet: fail(302, "there")},
		{path: pod + "web/exec?stdout=1", upgrade: true, kubelet: fail(200, "fine")},
		{path: pod + "web/exec?stdout=1", socket: "v5.channel.k8s.io", kubelet: fail(500, "broken")},
		{path: pod + "web/portforward?ports=80", socket: "SPDY/3.1+portforward.k8s.io", kubelet: fail(500, "broken")},
		{path: pod + "web/portforward?ports=80"},
		{path: pod + "web/proxy/"},
		{path: pod + "web/proxy"},
		{path: pod + "loop/proxy/"},
		{path: pod + "link/proxy/"},
		{path: pod + "none/proxy/"},
		{path: pod + "homeless/proxy/"},
		{path: pod + "a:b:c:d/proxy/"},
		{path: pod + "ftp:web:80/proxy/"},
		{path: "/api/v1/nodes/n1/proxy/healthz"},
		{path: "/api/v1/nodes/none/proxy/healthz"},
		{path: "/api/v1/nodes/noaddress/proxy/healthz"},
		{path: "/api/v1/nodes/ftp:n1:80/proxy/healthz"},
		{path: "/api/v1/namespaces/default/services/none/proxy/"},
		{path: "/api/v1/namespaces/default/services/none:80/proxy/"},
		{path: "/api/v1/namespaces/default/services/bare/proxy/"},
		{path: "/api/v1/namespaces/default/services/bare:80/proxy/"},
		{path: "/api/v1/namespaces/default/services/bare:81/proxy/"},
		{path: "/api/v1/namespaces/default/services/empty:80/proxy/"},
		{path: "/api/v1/namespaces/default/services/https:foreign:http/proxy/"},
		{path: "/api/v1/namespaces/default/services/foreign:other/proxy/"},
	}
	for _, q := range asks {
		kubelet.Intercept(q.kubelet)
		var answers []string
		for _, c := range configs {
			answers = append(answers, q.ask(t, c))
		}
		if q.better != "" && strings.Contains(answers[0], q.better) {
			continue
		}
		if answers[0] != answers[1] {
			t.Errorf("%s\nkanzen %s\npeer   %s", q, answers[0], answers[1])
		} else if testing.Verbose() {
			t.Logf("%s: %s", q, answers[0])
		}
	}
}

// furnish makes pods, nodes and services that something is the matter with.
func furnish(t *testing.T, client kubernetes.Interface, kubelet *standin.Kubelet) {
	t.Helper()
	ensureAccount(t, client)
	kubelet.Run(t, client, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Command: []string{"sh", "-c", "echo one; echo two"}}}}})
	create := func(name, node, ip string, containers ...string) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node}}
		off := false
		p.Spec.AutomountServiceAccountToken = &off
		for _, c := range containers {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c, Image: "none"})
		}
		p, err := client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if ip != "" {
			p.Status.PodIP, p.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
			if _, err := client.CoreV1().Pods("default").UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	create("two", "n1", "", "a", "b")
	create("homeless", "", "", "a")
	create("lost", "gone", "", "a")
	create("noaddress", "noaddress", "", "a")
	create("closed", "closed", "", "a")
	create("loop", "n1", "127.0.0.1", "a")
	create("link", "n1", "169.254.169.254", "a")
	for _, name := range []string{"noaddress", "closed"} {
		n, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if name == "closed" {
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
			n.Status.DaemonEndpoints.KubeletEndpoint.Port = 1
			if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"bare", "empty", "foreign"} {
		_, err := client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name == "foreign" { // an address that is no pod
			endpoints.Subsets = []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "10.1.1.1"}}, Ports: []corev1.EndpointPort{{Name: "http", Port: 80}}}}
		}
		if name == "bare" {
			continue
		}
		if _, err := client.CoreV1().Endpoints("default").Create(t.Context(), endpoints, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// ensureAccount makes the service account that a controller makes elsewhere.
func ensureAccount(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		if _, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{}); err == nil {
			return true, nil
		}
		_, err := client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
		return err == nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// question is a request.
type question struct {
	path, method, socket string
	upgrade              bool // to SPDY
	kubelet              func(w http.ResponseWriter, r *http.Request) bool
	// better is what kanzen's answer contains where it is meant to be another.
	better string
}

func (q question) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s upgrade=%v socket=%s intercepted=%v", q.method, q.path, q.upgrade, q.socket, q.kubelet != nil))
}

// volatile are parts of answers that differ between any two servers.
var volatile = regexp.MustCompile(`127\.0\.0\.1:\d+->|"resourceVersion":"\d+"`)

// ask returns the answer as text.
func (q question) ask(t *testing.T, c *rest.Config) string {
	t.Helper()
	if q.socket != "" {
		return q.askSocket(t, c)
	}
	transport, err := rest.TransportFor(c)
	if err != nil {
		t.Fatal(err)
	}
	method := q.method
	if method == "" {
		method = http.MethodGet
	}
	if q.upgrade {
		method = http.MethodPost
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.Host+q.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if q.upgrade {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "SPDY/3.1")
		req.Header.Set("X-Stream-Protocol-Version", "v4.channel.k8s.io")
		c = rest.CopyConfig(c)
		c.NextProtos = []string{"http/1.1"}
		if transport, err = rest.TransportFor(c); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return volatile.ReplaceAllString(fmt.Sprintf("%d %s %q %s", resp.StatusCode, resp.Header.Get("Content-Type"), resp.Header.Get("Location"), body), "")
}

func (q question) askSocket(t *testing.T, c *rest.Config) string {
	t.Helper()
	settings, err := rest.TLSConfigFor(c)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	if c.BearerToken != "" {
		header.Set("Authorization", "Bearer "+c.BearerToken)
	}
	d := websocket.Dialer{TLSClientConfig: settings, Subprotocols: []string{q.socket}, HandshakeTimeout: 20 * time.Second}
	conn, resp, err := d.DialContext(t.Context(), "wss"+strings.TrimPrefix(c.Host, "https")+q.path, header)
	if err != nil {
		if resp == nil {
			return err.Error()
		}
		body, _ := io.ReadAll(resp.Body)
		return fmt.Sprintf("%d %s", resp.StatusCode, body)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	out := []string{conn.Subprotocol()}
	joined := map[byte]string{}
	var order []byte
	for {
		kind, data, err := conn.ReadMessage()
		if err != nil {
			for _, ch := range order {
				out = append(out, fmt.Sprintf("%d %q", ch, joined[ch]))
			}
			return volatile.ReplaceAllString(strings.Join(append(out, err.Error()), " "), "")
		}
		if !strings.HasSuffix(q.socket, "channel.k8s.io") {
			out = append(out, fmt.Sprintf("%d:%q", kind, data))
			continue
		}
		if joined[data[0]] == "" && !strings.Contains(string(order), string(data[:1])) {
			order = append(order, data[0])
		}
		joined[data[0]] += string(data[1:])
	}
}
