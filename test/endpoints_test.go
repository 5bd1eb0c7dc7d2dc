//lint:file-ignore SA1019 Endpoints are deprecated, and kept all the same

package test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// quietClient does not tell that Endpoints are deprecated.
func quietClient(t *testing.T, c *rest.Config) kubernetes.Interface {
	t.Helper()
	c.WarningHandler = rest.NoWarnings{}
	out, err := kubernetes.NewForConfig(c)
	must(t, err)
	return out
}

// endpointsOf says what the kubernetes service leads to, by its Endpoints and,
// if that is something else, by its EndpointSlice: "address:port ...".
func endpointsOf(ctx context.Context, t *testing.T, c kubernetes.Interface) string {
	t.Helper()
	e, err := c.CoreV1().Endpoints("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	s, err := c.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	var one, other []string
	for _, subset := range e.Subsets {
		for _, a := range subset.Addresses {
			one = append(one, fmt.Sprintf("%s:%d", a.IP, subset.Ports[0].Port))
		}
	}
	for _, a := range s.Endpoints {
		other = append(other, fmt.Sprintf("%s:%d", a.Addresses[0], *s.Ports[0].Port))
	}
	if !slices.Equal(one, other) {
		return fmt.Sprintf("%v, and in the slice %v", one, other)
	}
	return strings.Join(one, " ")
}

// leadsTo waits until the kubernetes service leads where it should, and
// returns how long that took.
func leadsTo(t *testing.T, c kubernetes.Interface, limit time.Duration, want string) time.Duration {
	t.Helper()
	began := time.Now()
	var last string
	defer func() {
		if t.Failed() {
			t.Logf("the kubernetes service leads to %q, and not to %q", last, want)
		}
	}()
	within(t, limit, "the kubernetes service leads to "+want, func(ctx context.Context) bool {
		last = endpointsOf(ctx, t, c)
		return last == want
	})
	return time.Since(began)
}

// leaseTTL is how long a server that was killed is believed to be there.
const leaseTTL = 15 * time.Second

// TestServersAreEndpoints has two servers on one etcd be the endpoints of the
// kubernetes service until they go, one way or the other.
func TestServersAreEndpoints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	etcd, peer := "http://127.0.0.1:"+freePort(t), "http://127.0.0.1:"+freePort(t)
	start(t, link(t, "etcd"), "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peer, "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync=true")
	within(t, 20*time.Second, "etcd is healthy", func(ctx context.Context) bool { return healthy(ctx, http.DefaultClient, etcd+"/health") })
	server := func(address string) *kanzen {
		return serve(t, filepath.Join(dir, address), "--etcd-servers="+etcd, "--controllers=", "--advertise-address="+address)
	}
	a := server("10.1.2.3")
	leadsTo(t, quietClient(t, a.config()), 5*time.Second, "10.1.2.3:"+a.port())
	b := server("10.1.2.4")
	c := quietClient(t, b.config())
	both := fmt.Sprintf("10.1.2.3:%s 10.1.2.4:%[1]s", a.port()) // the port of the first
	leadsTo(t, c, 5*time.Second, both)
	leadsTo(t, quietClient(t, a.config()), time.Second, both)

	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	took := leadsTo(t, c, 5*time.Second, "10.1.2.4:"+b.port())
	if code := a.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	a = server("10.1.2.3")
	leadsTo(t, c, 5*time.Second, fmt.Sprintf("10.1.2.3:%s 10.1.2.4:%[1]s", b.port()))
	a.kill()
	killed := leadsTo(t, c, leaseTTL+5*time.Second, "10.1.2.4:"+b.port())
	t.Logf("off the endpoints %v after SIGTERM, %v after SIGKILL", took.Round(time.Millisecond), killed.Round(time.Millisecond))
	if killed < time.Second {
		t.Error("a killed server was gone before its lease")
	}
}

// TestServiceIsKept has the kubernetes service made again, and its endpoints
// with it, by a server on its own etcd that comes and goes.
func TestServiceIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := serve(t, dir, "--controllers=", "--advertise-address=10.1.2.3", "--kubernetes-service-node-port=30443")
	c, ctx := quietClient(t, k.config()), t.Context()
	leadsTo(t, c, 5*time.Second, "10.1.2.3:"+k.port())
	must(t, c.CoreV1().Services("default").Delete(ctx, "kubernetes", metav1.DeleteOptions{}))
	var s *corev1.Service
	within(t, 15*time.Second, "there is a service again", func(ctx context.Context) (ok bool) {
		var err error
		s, err = c.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		return err == nil
	})
	if p := s.Spec.Ports[0]; s.Spec.Type != corev1.ServiceTypeNodePort || p.NodePort != 30443 || fmt.Sprint(p.TargetPort.IntVal) != k.port() || s.Spec.ClusterIP != "10.0.0.1" {
		t.Errorf("%+v", s.Spec)
	}
	leadsTo(t, c, 5*time.Second, "10.1.2.3:"+k.port())
	if code, took := k.end(syscall.SIGTERM); code != 0 || took > 20*time.Second {
		t.Errorf("exit code %d after %v", code, took)
	}
	k = serve(t, dir, "--controllers=", "--advertise-address=10.1.2.3", "--endpoint-reconciler-type=none")
	if got := endpointsOf(ctx, t, quietClient(t, k.config())); got != "" {
		t.Errorf("after all have left the service leads to %q", got)
	}
}

// TestEndpointsBesidePeer has kanzen and kube-apiserver on one etcd be the
// endpoints of the kubernetes service. It needs -peer.
func TestEndpointsBesidePeer(t *testing.T) {
	if *peerBin == "" {
		t.Skip("no kube-apiserver to be beside: -peer")
	}
	t.Parallel()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.csv")
	must(t, os.WriteFile(tokens, []byte(admissionToken+",admin,admin,system:masters\n"), 0o600))
	etcd := startPeerEtcd(t, dir)
	own := func() *kanzen {
		return serve(t, filepath.Join(dir, "kanzen"), "--etcd-servers="+etcd, "--controllers=", "--advertise-address=10.1.2.3")
	}
	theirs := func() (kubernetes.Interface, *process) {
		url, p := startPeer(t, dir, etcd, tokens, "--advertise-address=10.1.2.4")
		return quietClient(t, &rest.Config{Host: url, BearerToken: admissionToken, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}), p
	}
	k := own()
	port := k.port()
	toPeer, peer := theirs()
	both := fmt.Sprintf("10.1.2.3:%s 10.1.2.4:%[1]s", port)
	leadsTo(t, quietClient(t, k.config()), 5*time.Second, both)
	leadsTo(t, toPeer, time.Second, both)
	// Each knows the other's lease: this is still so after it was renewed.
	time.Sleep(leaseTTL + time.Second)
	leadsTo(t, toPeer, time.Second, both)

	if err := peer.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// Up to an interval: kube-apiserver puts in its own port as it goes.
	ended := leadsTo(t, quietClient(t, k.config()), 15*time.Second, "10.1.2.3:"+port)
	peer.exit()
	_, peer = theirs()
	leadsTo(t, quietClient(t, k.config()), 5*time.Second, both)
	peer.kill()
	killed := leadsTo(t, quietClient(t, k.config()), leaseTTL+5*time.Second, "10.1.2.3:"+port)
	t.Logf("kanzen takes kube-apiserver off %v after SIGTERM, %v after SIGKILL", ended, killed)

	toPeer, _ = theirs()
	leadsTo(t, toPeer, 5*time.Second, both)
	if err := k.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended = leadsTo(t, toPeer, 5*time.Second, "10.1.2.4:"+port)
	k.exit()
	k = own()
	leadsTo(t, toPeer, 5*time.Second, both)
	k.kill()
	killed = leadsTo(t, toPeer, leaseTTL+15*time.Second, "10.1.2.4:"+port) // it looks every 10 s
	t.Logf("kube-apiserver takes kanzen off %v after SIGTERM, %v after SIGKILL", ended, killed)
}
