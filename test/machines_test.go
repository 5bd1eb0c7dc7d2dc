package test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kanzen-io/kanzen/test/peer"
)

var withMachines = flag.Bool("machines", false, "run kube-controller-manager, kube-scheduler (bench/peer/bin) and kwok on kanzen, and on kube-apiserver if it is there")

// machines is a server with kube-controller-manager, kube-scheduler and nodes that kwok plays.
type machines struct {
	t          testing.TB
	name       string
	config     *rest.Config
	k          *kubernetes.Clientset
	kubeconfig string
	programs   []*process
	// measured are the processes of the server, by name: kanzen, or kube-apiserver and etcd.
	measured map[string]int
	server   *kanzen // nil on kube-apiserver
}

// peerProgram returns the path of a program of Kubernetes in bench/peer/bin.
func peerProgram(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "bench", "peer", "bin", name))
	must(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("make -C bench/peer bin/%s builds it: %v", name, err)
	}
	return path
}

// kwok returns the path of kwok, which is built once from its module unless the environment names one.
func kwok(t testing.TB) string {
	t.Helper()
	path := filepath.Join(binaries.dir, "kwok")
	if _, err := os.Lstat(path); err == nil {
		return path
	}
	path, err := build("KWOK", path, "kwok", "sigs.k8s.io/kwok/cmd/kwok")
	must(t, err)
	return path
}

// onKanzen starts the programs as docs/whole-cluster.md says: by what `kanzen assets` writes.
func onKanzen(t testing.TB, flags ...string) *machines {
	t.Helper()
	bin := t.TempDir()
	for name, path := range map[string]string{"kube-controller-manager": peerProgram(t, "kube-controller-manager"), "kube-scheduler": peerProgram(t, "kube-scheduler"), "kwok": kwok(t)} {
		must(t, os.Symlink(path, filepath.Join(bin, name)))
	}
	dir, assets := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "assets")
	k := serve(t, dir, "--controllers=")
	stdout, stderr, code := output(t, binaries.kanzen, "assets", "--data-dir", dir, "--dir", assets, "--for", "kube-controller-manager,kube-scheduler,kwok")
	if code != 0 {
		t.Fatal(stderr)
	}
	m := &machines{t: t, name: "kanzen", config: k.config(), k: k.client(), kubeconfig: k.kubeconfig(), measured: map[string]int{"kanzen": k.cmd.Process.Pid}, server: k}
	for line := range strings.Lines(stdout) {
		script := strings.TrimPrefix(strings.TrimSpace(line), "sh ")
		m.programs = append(m.programs, start(t, "env", append([]string{"PATH=" + bin + ":" + os.Getenv("PATH"), "sh", script}, flagsOf(filepath.Base(script), flags)...)...))
	}
	return m
}

// restart ends kanzen by a signal and starts it again on the same data and port.
func (m *machines) restart(s syscall.Signal) {
	m.t.Helper()
	if code, _ := m.server.end(s); s == syscall.SIGTERM && code != 0 {
		m.t.Errorf("ended with code %d:\n%s", code, m.server.stderr.String())
	}
	m.server = serve(m.t, m.server.dir, "--controllers=", "--secure-port="+m.server.port())
	m.measured["kanzen"] = m.server.cmd.Process.Pid
}

// onPeer starts the programs on kube-apiserver.
func onPeer(t testing.TB, flags ...string) *machines {
	t.Helper()
	dir := t.TempDir()
	key := filepath.Join(dir, "sa.key")
	signing, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalECPrivateKey(signing)
	must(t, err)
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600))
	before := children()
	c := peer.Start(t, "--service-account-key-file", key, "--service-account-signing-key-file", key)
	m := &machines{t: t, name: "kube-apiserver", config: c, k: kubernetes.NewForConfigOrDie(c), kubeconfig: filepath.Join(dir, "kubeconfig"), measured: map[string]int{}}
	for name, pid := range children() {
		if before[name] != pid {
			m.measured[name] = pid
		}
	}
	m.writeKubeconfig(c)
	for name, args := range map[string][]string{
		"kube-controller-manager": {"--kubeconfig=" + m.kubeconfig, "--use-service-account-credentials=true", "--service-account-private-key-file=" + key, "--bind-address=127.0.0.1"},
		"kube-scheduler":          {"--kubeconfig=" + m.kubeconfig, "--bind-address=127.0.0.1"},
		"kwok":                    {"--kubeconfig=" + m.kubeconfig, "--config=" + filepath.Join("..", "cmd", "kanzen", "kwok.yaml"), "--manage-all-nodes=true", "--node-ip=10.0.0.1", "--cidr=10.244.0.0/16", "--node-lease-duration-seconds=40"},
	} {
		path := kwok(t)
		if name != "kwok" {
			path = peerProgram(t, name)
		}
		m.programs = append(m.programs, start(t, path, append(args, flagsOf(name+".sh", flags)...)...))
	}
	return m
}

// writeKubeconfig writes a kubeconfig of the peer's administrator.
func (m *machines) writeKubeconfig(c *rest.Config) {
	m.t.Helper()
	f := clientcmdapi.NewConfig()
	f.Clusters["peer"] = &clientcmdapi.Cluster{Server: c.Host, InsecureSkipTLSVerify: true}
	f.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: c.BearerToken}
	f.Contexts["peer"] = &clientcmdapi.Context{Cluster: "peer", AuthInfo: "admin"}
	f.CurrentContext = "peer"
	must(m.t, clientcmd.WriteToFile(*f, m.kubeconfig))
}

// flagsOf are the further flags of a program: those for its name, and a free port.
func flagsOf(script string, flags []string) []string {
	name := strings.TrimSuffix(script, ".sh")
	var out []string
	if name != "kwok" {
		out = append(out, "--secure-port=0", "--leader-elect=false")
	}
	for _, f := range flags {
		if flag, ok := strings.CutPrefix(f, name+" "); ok {
			out = append(out, flag)
		}
	}
	return out
}

// children are the processes that this one has started, by name.
func children() map[string]int {
	out := map[string]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		head, rest, ok := strings.Cut(string(b), ") ")
		fields := strings.Fields(rest)
		pid, name, _ := strings.Cut(head, " (")
		if ok && len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			out[name], _ = strconv.Atoi(pid)
		}
	}
	return out
}

// usage returns the processor time of the server's processes so far, and the memory that they hold.
func (m *machines) usage() (cpu time.Duration, memory int64) {
	m.t.Helper()
	for _, pid := range m.measured {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		must(m.t, err)
		_, rest, _ := strings.Cut(string(stat), ") ")
		f := strings.Fields(rest)
		for _, ticks := range f[11:13] { // utime, stime
			n, err := strconv.Atoi(ticks)
			must(m.t, err)
			cpu += time.Duration(n) * 10 * time.Millisecond
		}
		pages, err := strconv.ParseInt(f[21], 10, 64)
		must(m.t, err)
		memory += pages * int64(os.Getpagesize())
	}
	return cpu, memory
}

// nodes makes nodes and waits until kwok has made them ready.
func (m *machines) nodes(count int) {
	m.t.Helper()
	for n := range count {
		name := fmt.Sprintf("node-%03d", n)
		_, err := m.k.CoreV1().Nodes().Create(m.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
			Status: corev1.NodeStatus{Allocatable: capacity(), Capacity: capacity()}}, metav1.CreateOptions{})
		must(m.t, err)
	}
	within(m.t, 3*time.Minute, "the nodes are ready", func(ctx context.Context) bool {
		list, err := m.k.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false
		}
		ready := 0
		for _, n := range list.Items {
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && len(n.Spec.Taints) == 0 {
					ready++
				}
			}
		}
		return ready == count
	})
}

// said is the end of what the programs said, for a test that fails.
func (m *machines) said() string {
	out := ""
	for _, p := range m.programs {
		s := p.stderr.String()
		out += fmt.Sprintf("%s:\n%s\n", strings.Join(p.cmd.Args, " "), s[max(0, len(s)-1500):])
	}
	return out
}

// kubectl runs kubectl to its end.
func (m *machines) kubectl(args ...string) string {
	m.t.Helper()
	out, err := exec.CommandContext(m.t.Context(), binaries.kubectl, append([]string{"--kubeconfig", m.kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("kubectl %q: %v\n%s", args, err, out)
	}
	return string(out)
}
