package chaos

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const members = 3

// node is one process at an address of its own.
type node struct {
	name, address string
	link          string // the host's end of its network; empty: it is on the loopback interface
	space         string // its network namespace
	binary        string
	args          []string
	log           *os.File

	mu  sync.Mutex
	cmd *exec.Cmd
}

// start starts the process, which may have run before.
func (n *node) start(t *testing.T) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	args := append([]string{n.binary}, n.args...)
	if n.space != "" {
		// The name of its machine is its own as well: servers are told apart by it.
		args = append([]string{"ip", "netns", "exec", n.space, "unshare", "--uts", "sh", "-c", `hostname "$0" && exec "$@"`, n.name}, args...)
	}
	n.cmd = exec.Command(args[0], args[1:]...)
	n.cmd.Stdout, n.cmd.Stderr = n.log, n.log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		t.Error(err)
	}
}

func (n *node) signal(s syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_ = n.cmd.Process.Signal(s)
}

// end sends a signal and waits for the end.
func (n *node) end(s syscall.Signal) {
	n.signal(s)
	n.mu.Lock()
	defer n.mu.Unlock()
	_ = n.cmd.Wait()
}

func (n *node) cut(t *testing.T, off bool) {
	t.Helper()
	state := "up"
	if off {
		state = "down"
	}
	ip(t, "link", "set", n.link, state)
}

// cluster is three members of etcd and three servers.
type cluster struct {
	etcds, servers [members]*node
	others         []*node // etcds of one member each, in which planes lie
	partitions     bool    // processes can be cut off
	dir            string
	planes         []string // that clients use
	etcdURLs       []string // of the members, for clients
	host           string   // the address of this process on the processes' network
	// credentials are those of the planes' administrators.
	credentials map[string]rest.TLSClientConfig
}

// ip runs ip(8).
func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// canPartition says why processes cannot be cut off; empty: they can.
func canPartition() string {
	if os.Geteuid() != 0 {
		return "it takes root"
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return "there is no ip(8)"
	}
	probe := fmt.Sprintf("kzprobe%d", os.Getpid())
	if out, err := exec.Command("ip", "netns", "add", probe).CombinedOutput(); err != nil {
		return "ip netns: " + string(bytes.TrimSpace(out))
	}
	_ = exec.Command("ip", "netns", "del", probe).Run()
	return ""
}

// options are what a cluster has beside servers and members.
type options struct {
	planes     []string
	etcds      int // of one member each, among which and the servers' own the planes are spread
	serverArgs []string
	disk       func(name, folder string) // prepares the folder of a process's data; may be nil
}

func newCluster(t *testing.T, kanzen string, o options) *cluster {
	c := &cluster{dir: t.TempDir(), planes: o.planes, credentials: map[string]rest.TLSClientConfig{}, host: "127.0.0.1"}
	why := canPartition()
	c.partitions = why == ""
	if !c.partitions {
		t.Logf("nothing is cut off from the network: %s", why)
	}
	id, subnet := fmt.Sprintf("kz%d", os.Getpid()%100000), fmt.Sprintf("10.%d.%d.", 200+rand.IntN(50), rand.IntN(250))
	if c.partitions {
		ip(t, "link", "add", id, "type", "bridge")
		t.Cleanup(func() { _ = exec.Command("ip", "link", "del", id).Run() })
		ip(t, "addr", "add", subnet+"1/24", "dev", id)
		ip(t, "link", "set", id, "up")
		c.host = subnet + "1"
	}
	key := filepath.Join(c.dir, "cluster-key")
	if err := os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("servers of a test ", 2)))), 0o600); err != nil {
		t.Fatal(err)
	}
	var initial []string
	etcdPorts := [members][2]string{}
	for n := range members {
		c.etcds[n] = c.node(t, kanzen, id, subnet, "e", n)
		c.servers[n] = c.node(t, kanzen, id, subnet, "s", n)
		etcdPorts[n] = [2]string{c.port(t, "2379"), c.port(t, "2380")}
		c.etcdURLs = append(c.etcdURLs, "http://"+c.etcds[n].address+":"+etcdPorts[n][0])
		initial = append(initial, fmt.Sprintf("e%d=http://%s:%s", n, c.etcds[n].address, etcdPorts[n][1]))
	}
	for n := range o.etcds {
		c.addEtcd(t, c.node(t, kanzen, id, subnet, "f", n))
	}
	if o.disk != nil {
		for n := range members {
			o.disk(c.etcds[n].name, filepath.Join(c.dir, c.etcds[n].name))
			o.disk(c.servers[n].name, filepath.Join(c.dir, c.servers[n].name))
		}
	}
	for n, e := range c.etcds {
		client, peer := c.etcdURLs[n], "http://"+e.address+":"+etcdPorts[n][1]
		c.startEtcd(t, e, client, peer, strings.Join(initial, ","))
	}
	for _, s := range c.servers {
		s.args = []string{"serve", "--data-dir=" + filepath.Join(c.dir, s.name), "--etcd-servers=" + strings.Join(c.etcdURLs, ","),
			"--bind-address=" + s.address, "--secure-port=" + c.port(t, "6443"), "--controllers=", "--cluster-key-file=" + key, "-v=2"}
		s.args = append(s.args, o.serverArgs...)
		for _, e := range c.others {
			s.args = append(s.args, "--planes-storage="+e.name+"="+flagOf(e, "--listen-client-urls="))
		}
		if len(o.planes) > 0 {
			s.args = append(s.args, "--planes")
		}
		s.start(t)
	}
	for _, s := range c.servers {
		c.await(t, s)
	}
	c.makePlanes(t)
	return c
}

// addEtcd starts an etcd of one member, in which planes may lie.
func (c *cluster) addEtcd(t *testing.T, e *node) {
	client, peer := "http://"+net.JoinHostPort(e.address, c.port(t, "2379")), "http://"+net.JoinHostPort(e.address, c.port(t, "2380"))
	c.startEtcd(t, e, client, peer, e.name+"="+peer)
	c.others = append(c.others, e)
}

// startEtcd starts a member of etcd at its URLs.
func (c *cluster) startEtcd(t *testing.T, e *node, client, peer, initial string) {
	e.args = []string{"etcd", "--name=" + e.name, "--data-dir=" + filepath.Join(c.dir, e.name), "--log-level=error",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client, "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=" + initial}
	e.start(t)
}

// flagOf returns the value of a flag that a process was given.
func flagOf(n *node, flag string) string {
	return strings.TrimPrefix(n.args[slices.IndexFunc(n.args, func(a string) bool { return strings.HasPrefix(a, flag) })], flag)
}

// port is a port: the usual one in a network of its own, else a free one.
func (c *cluster) port(t *testing.T, usual string) string {
	if c.partitions {
		return usual
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func (c *cluster) node(t *testing.T, binary, id, subnet, kind string, number int) *node {
	n := &node{name: fmt.Sprintf("%s%d", kind, number), address: "127.0.0.1", binary: binary}
	var err error
	if n.log, err = os.Create(filepath.Join(c.dir, n.name+".log")); err != nil {
		t.Fatal(err)
	}
	if c.partitions {
		host := map[string]int{"e": 10, "s": 20, "f": 30}[kind] + number
		n.address, n.space, n.link = fmt.Sprint(subnet, host), id+n.name, id+n.name
		ip(t, "netns", "add", n.space)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", n.space).Run() })
		ip(t, "link", "add", n.link, "type", "veth", "peer", "name", "eth0", "netns", n.space)
		t.Cleanup(func() { _ = exec.Command("ip", "link", "del", n.link).Run() })
		ip(t, "link", "set", n.link, "master", id)
		ip(t, "link", "set", n.link, "up")
		for _, args := range [][]string{{"addr", "add", n.address + "/24", "dev", "eth0"}, {"link", "set", "eth0", "up"}, {"link", "set", "lo", "up"},
			{"route", "add", "default", "via", subnet + "1"}} {
			ip(t, append([]string{"-n", n.space}, args...)...)
		}
	}
	t.Cleanup(func() {
		n.end(syscall.SIGKILL)
		if t.Failed() {
			text, _ := os.ReadFile(n.log.Name())
			t.Logf("%s:\n%s", n.name, text[max(0, len(text)-6000):])
		}
	})
	return n
}

// root returns a client of one server itself.
func (c *cluster) root(s *node) (*kubernetes.Clientset, error) { return c.client(s, "") }

// config is how the administrator reaches a server.
func (c *cluster) config(s *node) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, s.name, "pki", "admin.kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// client returns a client of a plane at one server, or of the server itself.
func (c *cluster) client(s *node, plane string) (*kubernetes.Clientset, error) {
	config, err := c.config(s)
	if err != nil {
		return nil, err
	}
	if plane != "" {
		config.Host += "/planes/" + plane
		config.CertData, config.KeyData = c.credentials[plane].CertData, c.credentials[plane].KeyData
	}
	return kubernetes.NewForConfig(config)
}

const planesPath = "/apis/planes.kanzen.io/v1/planes"

// makePlanes makes the planes that clients use.
func (c *cluster) makePlanes(t *testing.T) {
	t.Helper()
	root, err := c.root(c.servers[0])
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	each(c.planes, func(plane string) {
		class := ""
		if n := slices.Index(c.planes, plane) % (1 + len(c.others)); n > 0 {
			class = c.others[n-1].name
		}
		of, err := makePlane(t.Context(), root, plane, class)
		if err != nil {
			t.Errorf("there is no plane %s: %v", plane, err)
		}
		mu.Lock()
		defer mu.Unlock()
		c.credentials[plane] = of
	})
	if t.Failed() {
		t.FailNow()
	}
}

// each calls do with each of many, a few at a time.
func each[T any](many []T, do func(T)) {
	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			for i := n; i < len(many); i += 16 {
				do(many[i])
			}
		})
	}
	all.Wait()
}

// makePlane makes a plane in a storage class and returns its administrator's credentials.
func makePlane(ctx context.Context, root *kubernetes.Clientset, plane, class string) (rest.TLSClientConfig, error) {
	body := fmt.Sprintf(`{"apiVersion":"planes.kanzen.io/v1","kind":"Plane","metadata":{"name":%q},"spec":{"storageClass":%q}}`, plane, class)
	deadline := time.Now().Add(90 * time.Second)
	for created := false; ; time.Sleep(100 * time.Millisecond) {
		if !created {
			err := root.RESTClient().Post().AbsPath(planesPath).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx).Error()
			created = err == nil
		}
		secret, err := root.CoreV1().Secrets("kanzen-planes").Get(ctx, plane+"-kubeconfig", metav1.GetOptions{})
		if err == nil {
			config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
			if err != nil {
				return rest.TLSClientConfig{}, err
			}
			return config.TLSClientConfig, nil
		}
		if time.Now().After(deadline) {
			return rest.TLSClientConfig{}, err
		}
	}
}

// move has a plane on a server, if somebody can be told so now.
func (c *cluster) move(t *testing.T, plane string, to *node) {
	root, err := c.root(to)
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"spec":{"server":%q}}`, net.JoinHostPort(to.address, flagOf(to, "--secure-port=")))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_ = root.RESTClient().Patch(types.MergePatchType).AbsPath(planesPath + "/" + plane).Body([]byte(body)).Do(ctx).Error()
}

// await waits until a server is ready.
func (c *cluster) await(t *testing.T, s *node) {
	t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for {
		client, err := c.root(s)
		if err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			_, err = client.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
			cancel()
		}
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not ready: %v", s.name, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
