package chaos

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kanzen-io/kanzen/test/balancer"
	"github.com/kanzen-io/kanzen/test/churn"
)

// programs are the clients of the cluster that are programs of their own. Each is started again when it ends, as the kubelet does.
var programs = []string{"kube-controller-manager", "kube-scheduler", "kwok", "operator"}

// program is one of them.
type program struct {
	name, path string
	args       []string
	log        *os.File

	held atomic.Bool // it is not started again

	mu     sync.Mutex
	cmd    *exec.Cmd
	starts int
}

// run starts the program until the context ends.
func (p *program) run(ctx context.Context) {
	for ctx.Err() == nil {
		if p.held.Load() {
			churn.Pause(ctx, 100*time.Millisecond)
			continue
		}
		p.mu.Lock()
		p.cmd = exec.Command(p.path, p.args...)
		p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		cmd, err := p.cmd, p.cmd.Start()
		p.starts++
		p.mu.Unlock()
		if err != nil {
			_, _ = fmt.Fprintln(p.log, err)
		} else {
			stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait()
			stop()
		}
		churn.Pause(ctx, time.Second)
	}
}

func (p *program) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Kill()
	}
}

// builtProgram is the path of a program: the variable of the environment has it, or a folder of this repository.
func builtProgram(t *testing.T, variable string, folder ...string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		path = filepath.Join(append([]string{"..", ".."}, folder...)...)
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("make soak builds it: %v", err)
	}
	return path
}

// startPrograms starts the programs behind a balancer of the servers, and returns them and the kubeconfig of an administrator there.
func (c *cluster) startPrograms(ctx context.Context, t *testing.T, out string) (list map[string]*program, kubeconfig string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := balancer.New()
	b.Start(ctx, listener)
	for _, s := range c.servers {
		b.Add(ctx, c.endpoint(s))
	}
	assets, data := filepath.Join(c.dir, "assets"), filepath.Join(c.dir, c.servers[0].name)
	if text, err := exec.CommandContext(ctx, c.servers[0].binary, "assets", "--data-dir", data, "--dir", assets, "--for", "kube-controller-manager,kube-scheduler,kwok").CombinedOutput(); err != nil {
		t.Fatalf("kanzen assets: %v\n%s", err, text)
	}
	kubeconfig = filepath.Join(assets, "admin.kubeconfig")
	text, err := os.ReadFile(filepath.Join(data, "pki", "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kubeconfig, text, 0o600); err != nil {
		t.Fatal(err)
	}
	configs, err := filepath.Glob(filepath.Join(assets, "*.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range configs {
		throughBalancer(t, path, listener.Addr().String())
	}
	bin := filepath.Join(assets, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	list = map[string]*program{}
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	t.Cleanup(func() { stop(); running.Wait() })
	for name, path := range map[string]string{
		"kube-controller-manager": builtProgram(t, "", "bench", "peer", "bin", "kube-controller-manager"),
		"kube-scheduler":          builtProgram(t, "", "bench", "peer", "bin", "kube-scheduler"),
		"kwok":                    builtProgram(t, "KWOK", "bin", "soak", "kwok"),
		"operator":                builtProgram(t, "OPERATOR", "bin", "soak", "operator"),
	} {
		p := &program{name: name, path: "env", args: []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "sh", filepath.Join(assets, name+".sh")}}
		if name == "operator" {
			p.path, p.args = path, []string{"-kubeconfig", kubeconfig}
		} else if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
		p.args = append(p.args, programFlags[name]...)
		if p.log, err = os.Create(filepath.Join(out, name+".log")); err != nil {
			t.Fatal(err)
		}
		list[name] = p
		running.Go(func() { p.run(ctx) })
	}
	return list, kubeconfig
}

// A loaded machine must not make nodes look dead.
var programFlags = map[string][]string{
	"kube-controller-manager": {"--secure-port=0", "--node-monitor-grace-period=200s", "--kube-api-qps=200", "--kube-api-burst=400"},
	"kube-scheduler":          {"--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400"},
}

// throughBalancer has a kubeconfig name the balancer's address.
func throughBalancer(t *testing.T, path, address string) {
	t.Helper()
	f, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range f.Clusters {
		c.Server = "https://" + address
	}
	if err := clientcmd.WriteToFile(*f, path); err != nil {
		t.Fatal(err)
	}
}

// endpoint is the address and port of a server.
func (c *cluster) endpoint(s *node) string {
	for _, a := range s.args {
		if port, ok := strings.CutPrefix(a, "--secure-port="); ok {
			return net.JoinHostPort(s.address, port)
		}
	}
	panic("a server without a port")
}

// smallDisk puts a file system of its own below a folder, if this process may.
func smallDisk(t *testing.T, folder string, megabytes int) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=700", megabytes)); err != nil {
		return fmt.Errorf("mount a disk of its own: %w", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
	return nil
}

// fillDisk writes a file until there is no room, and returns how to remove it.
func fillDisk(folder string) (free func() error, err error) {
	path := filepath.Join(folder, "ballast")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for size := len(block); size > 0; {
		if _, err := f.Write(block[:size]); err != nil {
			size /= 2
		}
	}
	return func() error { return os.Remove(path) }, nil
}
