package kubelet

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/utils/clock"
)

// world is a Server between clients and a kubelet.
type world struct {
	*Server
	node   corev1.Node
	front  *httptest.Server
	cancel context.CancelFunc // of all requests
}

// serve serves p's subresources in front of a kubelet.
func newWorld(t *testing.T, kubelet http.HandlerFunc, change func(c *Config)) *world {
	t.Helper()
	back := httptest.NewTLSServer(kubelet)
	t.Cleanup(back.Close)
	host, port, _ := net.SplitHostPort(back.Listener.Addr().String())
	n, _ := strconv.Atoi(port)
	w := &world{}
	w.node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	w.node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(n)
	c := Config{
		Node: func(context.Context, string) (*corev1.Node, error) { return &w.node, nil }, AddressTypes: []string{"InternalIP"},
		ConnectTimeout: time.Minute, AnswerTimeout: time.Minute, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		WriteError: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	if change != nil {
		change(&c)
	}
	var err error
	if w.Server, err = New(c); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "main"}}}}
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.1.2.3"}}
	requests, cancel := context.WithCancel(t.Context())
	w.cancel = cancel
	mux := http.NewServeMux()
	serve := func(path string, f func(w http.ResponseWriter, r *http.Request) error) {
		mux.HandleFunc(path, func(rw http.ResponseWriter, r *http.Request) {
			if err := f(rw, r); err != nil {
				http.Error(rw, err.Error(), http.StatusBadGateway)
			}
		})
	}
	serve("/exec", func(rw http.ResponseWriter, r *http.Request) error {
		return w.Exec(rw, r, pod, &corev1.PodExecOptions{Stdin: true, Stdout: true, Command: []string{"a b"}})
	})
	serve("/portforward", func(rw http.ResponseWriter, r *http.Request) error {
		return w.PortForward(rw, r, pod, &corev1.PodPortForwardOptions{Ports: []int32{80, 81}})
	})
	serve("/log", func(rw http.ResponseWriter, r *http.Request) error {
		return w.Log(rw, r, pod, &corev1.PodLogOptions{Follow: true})
	})
	serve("/node/", func(rw http.ResponseWriter, r *http.Request) error {
		return w.ProxyNode(rw, r, "n1", strings.TrimPrefix(r.URL.Path, "/node"))
	})
	w.front = httptest.NewUnstartedServer(mux)
	w.front.Config.BaseContext = func(net.Listener) context.Context { return requests }
	w.front.Start()
	t.Cleanup(func() {
		cancel()
		_ = w.Close()
		w.front.Close()
	})
	return w
}

// dial opens a websocket.
func (w *world) dial(t *testing.T, path, protocol string) *websocket.Conn {
	t.Helper()
	conn, resp, err := (&websocket.Dialer{Subprotocols: []string{protocol}}).DialContext(t.Context(), "ws"+strings.TrimPrefix(w.front.URL, "http")+path, nil)
	if err != nil {
		body := []byte{}
		if resp != nil {
			body, _ = io.ReadAll(resp.Body)
		}
		t.Fatalf("%v: %s", err, body)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	return conn
}

// streamsOf is a kubelet's side of a command: its streams, by type.
type streamsOf struct {
	httpstream.Connection
	by map[string]httpstream.Stream
}

// commands is a kubelet that gives each command to a func.
func commands(t *testing.T, run func(s streamsOf)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/exec/ns/web/main" || r.URL.RawQuery != "command=a+b&input=1&output=1" {
			t.Errorf("the kubelet was asked %s", r.URL)
		}
		if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
			return
		}
		ch := make(chan httpstream.Stream, 5)
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, replied <-chan struct{}) error {
			go func() {
				<-replied
				ch <- s
			}()
			return nil
		})
		if conn == nil {
			return
		}
		defer conn.Close()
		s := streamsOf{conn, map[string]httpstream.Stream{}}
		for range 3 {
			stream := <-ch
			s.by[stream.Headers().Get("streamType")] = stream
		}
		run(s)
	}
}

// result reads a session to its end: the data of stdout, the result, and how the websocket ended.
func result(t *testing.T, conn *websocket.Conn) (out, status string, end error) {
	t.Helper()
	var all strings.Builder
	for {
		_, data, err := conn.ReadMessage()
		if err != nil {
			return all.String(), status, err
		}
		switch data[0] {
		case channelStdout:
			all.Write(data[1:])
		case channelError:
			status += string(data[1:])
		default:
			t.Errorf("a message on channel %d", data[0])
		}
	}
}

// await reads until a message comes.
func await(t *testing.T, conn *websocket.Conn, message string) {
	t.Helper()
	for {
		if _, data, err := conn.ReadMessage(); err != nil {
			t.Fatal(err)
		} else if string(data) == message {
			return
		}
	}
}

func TestSession(t *testing.T) {
	w := newWorld(t, commands(t, func(s streamsOf) {
		in, err := io.ReadAll(s.by["stdin"])
		if err != nil {
			t.Error(err)
		}
		_, _ = s.by["stdout"].Write(append([]byte("got "), in...))
		_, _ = io.WriteString(s.by["error"], `{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}`)
	}), nil)
	conn := w.dial(t, "/exec", protocolSocket)
	for _, m := range []string{"", "\x00one ", "\x07ignored", "\x04{}", "\x00two", "\xff\x01", "\xff\x00", "\x00late"} {
		if err := conn.WriteMessage(websocket.BinaryMessage, []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	out, status, end := result(t, conn)
	if out != "got one two" || !strings.Contains(status, `"reason":"NonZeroExitCode"`) || !strings.Contains(status, `"message":"7"`) || !websocket.IsCloseError(end, websocket.CloseNormalClosure) {
		t.Errorf("%q, %s, %v", out, status, end)
	}
	_ = conn.Close()
	if err := w.Close(); err != nil { // when the session has ended
		t.Error(err)
	}
	if got := testutil.ToFloat64(w.metrics.translated.WithLabelValues("200")); got != 1 {
		t.Errorf("%v sessions were counted", got)
	}
}

func TestKubeletBreaksOff(t *testing.T) {
	w := newWorld(t, commands(t, func(s streamsOf) { _, _ = s.by["stdout"].Write([]byte("half")) }), nil)
	out, status, _ := result(t, w.dial(t, "/exec", protocolSocket))
	if out != "half" || !strings.Contains(status, "the kubelet closed the connection before the command had ended") {
		t.Errorf("%q, %s", out, status)
	}
}

func TestServerEnds(t *testing.T) {
	ended := make(chan struct{})
	w := newWorld(t, commands(t, func(s streamsOf) {
		_, _ = s.by["stdout"].Write([]byte("x"))
		<-s.CloseChan()
		close(ended)
	}), nil)
	conn := w.dial(t, "/exec", protocolSocket)
	await(t, conn, "\x01x")
	w.cancel()
	if _, _, end := result(t, conn); !websocket.IsCloseError(end, websocket.CloseGoingAway) {
		t.Errorf("it ended with %v", end)
	}
	<-ended
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	resp, err := http.Get(w.front.URL + "/log")
	if err == nil {
		defer resp.Body.Close()
		if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body), "shutting down") {
			t.Errorf("after the end: %s", body)
		}
	}
}

func TestClientIsGone(t *testing.T) {
	ended := make(chan struct{})
	w := newWorld(t, commands(t, func(s streamsOf) {
		_, _ = s.by["stdout"].Write([]byte("x"))
		<-s.CloseChan()
		close(ended)
	}), nil)
	conn := w.dial(t, "/exec", protocolSocket)
	await(t, conn, "\x01x")
	_ = conn.NetConn().Close()
	<-ended
}

// What a client does not read, the kubelet cannot write, and the other way round: the server holds little. Pings are
// answered all the same.
func TestBackpressure(t *testing.T) {
	const much = 64 << 20
	var written atomic.Int64
	stalled := make(chan struct{})
	w := newWorld(t, commands(t, func(s streamsOf) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range much / 65536 {
				n, err := s.by["stdout"].Write(make([]byte, 65536))
				written.Add(int64(n))
				if err != nil {
					return
				}
			}
		}()
		// Until nothing has moved for a while.
		for last := int64(-1); last != written.Load() || last == 0; time.Sleep(200 * time.Millisecond) {
			last = written.Load()
		}
		close(stalled)
		<-done
		_, _ = io.WriteString(s.by["error"], `{"status":"Success"}`)
	}), nil)
	conn := w.dial(t, "/exec", protocolSocket)
	<-stalled
	if n := written.Load(); n > 32<<20 {
		t.Errorf("%d bytes were taken from the kubelet for a client that does not read", n)
	}
	out, status, _ := result(t, conn)
	if len(out) != much || !strings.Contains(status, "Success") {
		t.Errorf("%d bytes, %s", len(out), status)
	}
}

// A kubelet that speaks websocket itself is given the client's own.
func TestKubeletSpeaksWebSocket(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		conn, err := (&websocket.Upgrader{Subprotocols: []string{protocolSocket}}).Upgrade(rw, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.WriteMessage(websocket.BinaryMessage, []byte("\x01"+r.URL.String()))
	}, nil)
	w.node.Status.DeclaredFeatures = []string{featureSockets}
	if _, data, err := w.dial(t, "/exec", protocolSocket).ReadMessage(); err != nil || string(data) != "\x01/exec/ns/web/main?command=a+b&input=1&output=1" {
		t.Errorf("%q, %v", data, err)
	}
	if got := testutil.ToFloat64(w.metrics.sockets.WithLabelValues("exec", "proxied_to_kubelet")); got != 1 {
		t.Errorf("%v were counted", got)
	}
}

// Without translation, websockets reach kubelets that do not say that they speak them, and are not counted.
func TestPassedOnAsItIs(t *testing.T) {
	const tunnelProtocol = "SPDY/3.1+portforward.k8s.io"
	for _, c := range []struct {
		path, protocol string
		change         func(*Config)
		asIs           bool
	}{
		{"/exec", protocolSocket, func(c *Config) { c.NoTranslation = true }, true},
		{"/exec", protocolSocket, func(c *Config) { c.NoTunnels = true }, false},
		{"/portforward", tunnelProtocol, func(c *Config) { c.NoTunnels = true }, true},
		{"/portforward", tunnelProtocol, func(c *Config) { c.NoTranslation = true }, false},
	} {
		asked := make(chan string, 1)
		w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			asked <- r.Header.Get("Upgrade")
			if conn, err := (&websocket.Upgrader{Subprotocols: []string{c.protocol}}).Upgrade(rw, r, nil); err == nil {
				_ = conn.Close()
			}
		}, c.change)
		conn, _, err := (&websocket.Dialer{Subprotocols: []string{c.protocol}}).DialContext(t.Context(), "ws"+strings.TrimPrefix(w.front.URL, "http")+c.path, nil)
		if err == nil {
			_ = conn.Close()
		}
		if got := <-asked; (got == "websocket") != c.asIs {
			t.Errorf("%s, as it is: %t: the kubelet was asked for %q", c.path, c.asIs, got)
		}
		if counted := testutil.CollectAndCount(w.metrics.sockets); (counted == 0) != c.asIs {
			t.Errorf("%s, as it is: %t: %d were counted", c.path, c.asIs, counted)
		}
	}
}

// A log that is followed reaches the client as it comes, and ends at the kubelet when the client goes.
func TestFollowedLog(t *testing.T) {
	gone := make(chan struct{})
	say := make(chan string)
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		defer close(gone)
		for {
			select {
			case s := <-say:
				_, _ = io.WriteString(rw, s)
				_ = http.NewResponseController(rw).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}, nil)
	conn := make(chan *websocket.Conn)
	go func() { conn <- w.dial(t, "/log", logBinary) }()
	say <- "one"
	c := <-conn
	for _, want := range []string{"", "one"} {
		if _, data, err := c.ReadMessage(); err != nil || string(data) != want {
			t.Errorf("%q, %v", data, err)
		}
	}
	say <- "two"
	if _, data, err := c.ReadMessage(); err != nil || string(data) != "two" {
		t.Errorf("%q, %v", data, err)
	}
	_ = c.NetConn().Close()
	<-gone
}

// Clients are not led to this machine, by whatever address or name.
func TestDestinations(t *testing.T) {
	for addr, want := range map[string]bool{
		"10.1.2.3": true, "2001:db8::1": true, "127.0.0.1": false, "::1": false, "169.254.169.254": false, "fe80::1": false,
		"0.0.0.0": false, "::": false, "224.0.0.1": false, "ff02::1": false, "255.255.255.255": false, "::ffff:127.0.0.1": false, "": false, "a": false,
	} {
		if got := allowed(net.ParseIP(addr)); got != want {
			t.Errorf("%q: %v", addr, got)
		}
	}
	w := newWorld(t, func(http.ResponseWriter, *http.Request) { t.Error("the kubelet was asked") }, nil)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		w.node.Status.Addresses[0].Address = host
		resp, err := http.Get(w.front.URL + "/node/")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if !strings.Contains(string(body), errDestination.Error()) {
			t.Errorf("%s: %s", host, body)
		}
	}
	// A name that is looked up again when connecting, and leads here then.
	u := &url.URL{Scheme: "http", Host: strings.TrimPrefix(w.front.URL, "http://")}
	if _, err := w.workloads.Connect(t.Context(), u); !errors.Is(err, errDestination) {
		t.Errorf("connecting: %v", err)
	}
	if _, err := w.proxied.Connect(t.Context(), u); !errors.Is(err, errDestination) {
		t.Errorf("connecting to a kubelet by proxy: %v", err)
	}
}

func TestLocate(t *testing.T) {
	s := &Server{cfg: Config{AddressTypes: []string{"Hostname", "InternalIP"}, Port: 10250}}
	n := &corev1.Node{}
	s.cfg.Node = func(context.Context, string) (*corev1.Node, error) { return n, nil }
	if _, err := s.locate(t.Context(), "n"); err == nil || err.Error() != "no preferred addresses found; known addresses: []" {
		t.Errorf("%v", err)
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: "ExternalIP", Address: "1.1.1.1"}, {Type: "InternalIP", Address: "fd00::1"}}
	if l, err := s.locate(t.Context(), "n"); err != nil || l.url(url.Values{"a": {"b"}}, "x", "y").String() != "https://[fd00::1]:10250/x/y?a=b" {
		t.Errorf("%+v, %v", l, err)
	}
	n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: "Hostname", Address: "h"})
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = 1
	if l, err := s.locate(t.Context(), "n"); err != nil || *l != (location{host: "h", port: "1"}) {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestContainerOf(t *testing.T) {
	pod := func(names ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"kubectl.kubernetes.io/default-container": "b"}}}
		for _, n := range names {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: n})
		}
		p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}}}
		return p
	}
	for _, c := range []struct {
		pod               *corev1.Pod
		named, want, fail string
	}{
		{pod("a"), "", "a", ""}, {pod("a"), "i", "i", ""}, {pod("a"), "e", "e", ""}, {pod("a", "b"), "b", "b", ""},
		{pod("a"), "x", "", "container x is not valid for pod p"},
		{pod("a", "b"), "", "", "a container name must be specified for pod p, choose one of: [i a b e]"},
		{pod(), "", "", "a container name must be specified for pod p"},
	} {
		got, err := containerOf(c.pod, c.named)
		if got != c.want || (err == nil) != (c.fail == "") || err != nil && err.Error() != c.fail {
			t.Errorf("%q: %q, %v", c.named, got, err)
		}
	}
}

func TestStatusError(t *testing.T) {
	for text, want := range map[string]string{
		`{"status":"Success"}`:                                         "",
		`{"status":"Failure","message":"bad"}`:                         "bad",
		`{"status":"Failure","reason":"NonZeroExitCode"}`:              "error stream protocol error: details must be set",
		`{"status":"Failure","reason":"NonZeroExitCode","details":{}}`: "error stream protocol error: no ExitCode cause",
		`{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"x"}]}}`:                `error stream protocol error: invalid exit code value "x"`,
		`{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"a"},{"reason":"ExitCode","message":"9"}]}}`: "command terminated with exit code 9",
		`{}`: "error stream protocol error: unknown error",
		`x`:  `error stream protocol error: invalid character 'x' looking for beginning of value in "x"`,
	} {
		if err := statusError([]byte(text)); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
