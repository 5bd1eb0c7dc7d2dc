package test

import (
	"bufio"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var manyPlanes = flag.Int("planes", 12, "how many planes three servers share")

// planeServers are servers that share an etcd, keys and planes.
type planeServers struct {
	t     *testing.T
	flags []string
	all   []*kanzen
}

func startPlaneServers(t *testing.T, n int) *planeServers {
	s := &planeServers{t: t, flags: []string{"--planes", "--etcd-servers=" + etcdServer(t)}}
	for range n {
		s.add()
	}
	return s
}

// add starts one more server, with the keys of the first.
func (s *planeServers) add() {
	dir := s.t.TempDir()
	if len(s.all) > 0 {
		must(s.t, os.CopyFS(filepath.Join(dir, "pki"), os.DirFS(filepath.Join(s.all[0].dir, "pki"))))
	}
	s.all = append(s.all, serve(s.t, dir, s.flags...))
}

// at returns the settings of a client of a plane at one of the servers.
func (s *planeServers) at(n int, plane string) *rest.Config {
	s.t.Helper()
	secret, err := s.all[n].client().CoreV1().Secrets("kanzen-planes").Get(s.t.Context(), plane+"-kubeconfig", metav1.GetOptions{})
	must(s.t, err)
	c, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	must(s.t, err)
	c.Host, c.QPS = "https://"+s.all[n].address+"/planes/"+plane, -1
	return c
}

// asks reads something in a plane at a server, until that answers or a time is over, and returns how long it took.
func (s *planeServers) asks(n int, plane string, patience time.Duration) time.Duration {
	s.t.Helper()
	began := time.Now()
	c := kubernetes.NewForConfigOrDie(s.at(n, plane))
	within(s.t, patience, "plane "+plane+" answers", func(ctx context.Context) bool {
		_, err := c.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	return time.Since(began)
}

// owner is the server that a Plane says has it; "": none.
func (s *planeServers) owner(n int, plane string) string {
	p := planesOf{s.all[n], s.t}
	return strings.TrimSpace(p.kubectl(p.kubeconfig(), "", "get", "plane", plane, "-o", "jsonpath={.status.server}"))
}

// TestPlaneServers has three servers share planes: each is awake on one, all answer for all, one moves, streams go through another server, and
// when one server is killed the others take what it had.
func TestPlaneServers(t *testing.T) {
	t.Parallel()
	s := startPlaneServers(t, 3)
	names := make([]string, *manyPlanes)
	for n := range names {
		names[n] = fmt.Sprint("p", n)
		body := fmt.Sprintf(`{"apiVersion":"planes.kanzen.io/v1","kind":"Plane","metadata":{"name":%q}}`, names[n])
		must(t, s.all[n%3].client().RESTClient().Post().AbsPath("/apis/planes.kanzen.io/v1/planes").SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error())
	}
	p := planesOf{s.all[0], t}
	p.kubectl(p.kubeconfig(), "", "wait", "--for=condition=Ready", "planes", "--all", "--timeout=120s")
	for n, name := range names {
		s.asks(n%3, name, time.Minute)     // so that each server has a third of them
		s.asks((n+1)%3, name, time.Minute) // passed on
	}
	s.leads(1, names[0])
	wide := p.kubectl(p.kubeconfig(), "", "get", "planes", "-o", "wide")
	for _, k := range s.all {
		if !strings.Contains(wide, k.address) {
			t.Errorf("no plane is on %s:\n%s", k.address, wide)
		}
	}
	stdout, stderr, code := output(t, binaries.kanzen, "plane", "move", names[0], "--data-dir", s.all[0].dir, "--to", s.all[2].address)
	if code != 0 || !strings.Contains(stdout, "is on "+s.all[2].address) || s.owner(1, names[0]) != s.all[2].address {
		t.Errorf("move: %d %s%s; it is on %s", code, stdout, stderr, s.owner(1, names[0]))
	}
	s.upgrades(1, names[0])
	direct, passed := s.latency(2, names[0]), s.latency(1, names[0])
	t.Logf("a get at the server that has the plane: %v, at another: %v", direct, passed)

	gone := s.all[0].address
	s.all[0].end(syscall.SIGKILL)
	began := time.Now()
	var waits []time.Duration
	var mu sync.Mutex
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := n; i < len(names); i += 8 {
				took := s.asks(1+i%2, names[i], time.Minute)
				mu.Lock()
				waits = append(waits, took)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d planes, of which a third was on the server that was killed, answer %v after that; the longest wait for one: %v", len(names), time.Since(began).Round(time.Millisecond), slices.Max(waits).Round(time.Millisecond))
	for _, name := range names {
		within(t, time.Minute, "the status of a plane says where it is", func(context.Context) bool { return s.owner(1, name) != gone })
	}
	_, port, _ := strings.Cut(gone, ":")
	s.all[0] = serve(t, s.all[0].dir, append(slices.Clone(s.flags), "--secure-port="+port)...)
	for _, name := range names[:3] {
		s.asks(0, name, time.Minute)
	}
}

// leads sees that the controllers of a plane work without a lease, which its owner would renew every other second: a plane has one owner.
func (s *planeServers) leads(n int, plane string) {
	s.t.Helper()
	c := kubernetes.NewForConfigOrDie(s.at(n, plane))
	within(s.t, time.Minute, "a controller of plane "+plane+" has made an account", func(ctx context.Context) bool {
		_, err := c.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	leases, err := c.CoordinationV1().Leases("kube-system").List(s.t.Context(), metav1.ListOptions{})
	must(s.t, err)
	for _, l := range leases.Items {
		if l.Name == "kanzen-controllers" {
			s.t.Errorf("plane %s elects a server for its controllers: %v", plane, l.Spec)
		}
	}
}

// upgrades opens a watch as a WebSocket, which takes over its connections.
func (s *planeServers) upgrades(n int, plane string) {
	s.t.Helper()
	config, err := rest.TLSConfigFor(s.at(n, plane))
	must(s.t, err)
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", s.all[n].address, config)
	must(s.t, err)
	defer conn.Close()
	must(s.t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	at := &url.URL{Path: "/planes/" + plane + "/api/v1/namespaces", RawQuery: "watch=true"}
	_, err = fmt.Fprintf(conn, "GET %[1]s HTTP/1.1\r\nHost: %[2]s\r\nOrigin: https://%[2]s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", at, s.all[n].address)
	must(s.t, err)
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	must(s.t, err)
	frame := make([]byte, 200)
	if answer.StatusCode == http.StatusSwitchingProtocols {
		_, err = in.Read(frame)
	}
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols || !strings.Contains(string(frame), `"ADDED"`) {
		s.t.Errorf("a watch as a WebSocket at another server: %s, %q, %v", answer.Status, frame, err)
	}
}

// latency is the median time of a get.
func (s *planeServers) latency(n int, plane string) time.Duration {
	s.t.Helper()
	c := kubernetes.NewForConfigOrDie(s.at(n, plane))
	times := make([]time.Duration, 300)
	for i := range times {
		began := time.Now()
		_, err := c.CoreV1().Namespaces().Get(s.t.Context(), "default", metav1.GetOptions{})
		must(s.t, err)
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[len(times)/2]
}
