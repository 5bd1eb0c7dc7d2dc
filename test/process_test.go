package test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kanzen-io/kanzen/test/peer"
)

// process is a program that a test started; it is killed when the test ends.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdout chan string // its lines, closed at its end
	stderr lockedBuffer
	done   chan struct{}
	err    error // of Wait; set before done is closed
}

// start starts a program, perhaps under another name than its file's.
func start(t testing.TB, path string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(path, args...), stdout: make(chan string, 64), done: make(chan struct{})}
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case p.stdout <- s.Text():
			default: // nobody reads that much
			}
		}
		_, _ = io.Copy(io.Discard, out)
		close(p.stdout)
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

// line is the next line on standard output.
func (p *process) line() string {
	p.t.Helper()
	l, err := p.nextLine()
	if err != nil {
		p.t.Fatal(err)
	}
	return l
}

// nextLine is the next line on standard output, or what there was instead.
func (p *process) nextLine() (string, error) {
	select {
	case l, ok := <-p.stdout:
		if !ok {
			<-p.done
			return "", fmt.Errorf("%s ended (%v) and said:\n%s", p.cmd.Path, p.err, p.stderr.String())
		}
		return l, nil
	case <-time.After(60 * time.Second):
		return "", fmt.Errorf("%s says nothing on standard output; on standard error:\n%s", p.cmd.Path, p.stderr.String())
	}
}

// kill ends the process as a loss of power would, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// end sends a signal and returns the exit code and how long the end took.
func (p *process) end(s syscall.Signal) (code int, took time.Duration) {
	p.t.Helper()
	begin := time.Now()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
	return p.exit(), time.Since(begin)
}

// exit waits for the end and returns the exit code; -1 if a signal ended it.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		<-p.done
		p.t.Fatalf("%s does not end:\n%s", p.cmd.Path, p.stderr.String())
	}
	var e *exec.ExitError
	if p.err != nil && !errors.As(p.err, &e) {
		p.t.Fatal(p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// kanzen is a running `kanzen serve`.
type kanzen struct {
	*process
	dir     string    // --data-dir
	lines   [3]string // what it greets with
	address string
	started time.Duration // from the start of the process to the greeting
	page    *tab          // its console, if the test looks at it
}

var greeting = regexp.MustCompile(`https://(\S+)`)

// noRootCA leaves out the ConfigMap that a controller puts into every namespace, for tests that count.
const noRootCA = "--controllers=*,-root-ca-certificate-publisher-controller"

// serve starts `kanzen serve` on a directory and waits until it is ready.
// Without further arguments it takes a free port.
func serve(t testing.TB, dir string, args ...string) *kanzen {
	t.Helper()
	k, err := tryServe(t, dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// tryServe is serve for tests that go on when a server does not start.
func tryServe(t testing.TB, dir string, args ...string) (*kanzen, error) {
	t.Helper()
	if !strings.Contains(strings.Join(args, " "), "--secure-port") {
		args = append(args, "--secure-port=0")
	}
	begin := time.Now()
	k := &kanzen{dir: dir, process: start(t, binaries.kanzen, append([]string{"serve", "--data-dir", dir}, args...)...)}
	for i := range k.lines {
		l, err := k.nextLine()
		if err != nil {
			k.kill()
			return nil, err
		}
		k.lines[i] = l
	}
	k.started = time.Since(begin)
	m := greeting.FindStringSubmatch(k.lines[0])
	if m == nil {
		return nil, fmt.Errorf("no address in the greeting %q", k.lines[0])
	}
	k.address = m[1]
	return k, nil
}

func (k *kanzen) port() string {
	_, port, err := net.SplitHostPort(k.address)
	if err != nil {
		k.t.Fatal(err)
	}
	return port
}

func (k *kanzen) kubeconfig() string { return filepath.Join(k.dir, "pki", "admin.kubeconfig") }

// config is how clients reach the server, without client-side rate limits.
func (k *kanzen) config() *rest.Config {
	k.t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", k.kubeconfig())
	if err != nil {
		k.t.Fatal(err)
	}
	c.QPS = -1
	return c
}

func (k *kanzen) client() *kubernetes.Clientset {
	k.t.Helper()
	c, err := kubernetes.NewForConfig(k.config())
	if err != nil {
		k.t.Fatal(err)
	}
	return c
}

// output runs a program to its end.
func output(t testing.TB, path string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return outputWithin(t, 30*time.Second, path, args...)
}

func outputWithin(t testing.TB, limit time.Duration, path string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// within polls until f is true, ever more seldom: what it waits for needs the processor.
func within(t testing.TB, limit time.Duration, what string, f func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for pause := 5 * time.Millisecond; !f(ctx); pause = min(pause*3/2, 50*time.Millisecond) {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", limit, what)
		case <-time.After(pause):
		}
	}
}

// link makes the kanzen binary known by another name.
func link(t testing.TB, name string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(binaries.kanzen, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// freePort is a port of the loopback interface that nobody listens on now.
func freePort(t testing.TB) string {
	t.Helper()
	return peer.FreePort(t)
}

// lockedBuffer is a bytes.Buffer for two goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// etcdServer starts an etcd, which is kanzen under that name, and returns its URL. Servers wait for it.
func etcdServer(t testing.TB) string {
	t.Helper()
	client, member := "http://127.0.0.1:"+freePort(t), "http://127.0.0.1:"+freePort(t)
	start(t, link(t, "etcd"), "--data-dir", t.TempDir(), "--unsafe-no-fsync", "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", member, "--initial-advertise-peer-urls", member, "--initial-cluster", "default="+member)
	return client
}
