package test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/test/standin"
)

// These tests lead real clients through the server to a kubelet that runs processes on this machine.

// megabytes is how much is piped through a command each way.
var megabytes = flag.Int("streams.megabytes", 20, "how much is piped through a command each way")

// node is a server with a kubelet.
type node struct {
	*kanzen
	kubelet *standin.Kubelet
	client  kubernetes.Interface
	program string // kubectl
}

// withKubelet starts a server, with more arguments, and a kubelet whose certificate it verifies.
func withKubelet(t *testing.T, args ...string) *node {
	t.Helper()
	kubelet := standin.Start(t, "n1")
	k := serve(t, t.TempDir(), append([]string{"--kubelet-certificate-authority=" + kubelet.CA}, args...)...)
	n := &node{k, kubelet, k.client(), binaries.kubectl}
	kubelet.Register(t, n.client)
	return n
}

// pod runs a pod with one container.
func (n *node) pod(name string, c corev1.Container) {
	n.t.Helper()
	c.Name = "main"
	n.kubelet.Run(n.t.(*testing.T), n.client, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}})
}

// kubectl prepares a command.
func (n *node) kubectl(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, n.program, append([]string{"--kubeconfig", n.kubeconfig()}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+n.dir)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs kubectl to its end.
func (n *node) run(env []string, stdin io.Reader, args ...string) (stdout, stderr string, code int) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := n.kubectl(ctx, args...)
	cmd.Env = append(cmd.Env, env...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		n.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// transports are what kubectl speaks: websocket by default, and SPDY.
var transports = map[string][]string{
	"websocket": nil,
	"spdy":      {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"},
}

// settled is how many goroutines and descriptors the server has when nothing is served.
type settled struct{ goroutines, descriptors int }

func (n *node) resources(ctx context.Context) settled {
	n.t.Helper()
	text, err := n.client.Discovery().RESTClient().Get().AbsPath("/debug/pprof/goroutine").Param("debug", "1").DoRaw(ctx)
	if err != nil {
		n.t.Fatal(err)
	}
	m := regexp.MustCompile(`total (\d+)`).FindSubmatch(text)
	goroutines, _ := strconv.Atoi(string(m[1]))
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.cmd.Process.Pid))
	if err != nil {
		n.t.Fatal(err)
	}
	// The first time that the server is idle it opens one for good, whenever that is (internal/base/trim).
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", n.cmd.Process.Pid, e.Name()))
		return to == "anon_inode:[userfaultfd]"
	})
	return settled{goroutines, len(entries)}
}

// released waits until the server has no more than it had before.
func (n *node) released(before settled) {
	n.t.Helper()
	var now settled
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		if now = n.resources(n.t.Context()); now.goroutines <= before.goroutines && now.descriptors <= before.descriptors {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	text, _ := n.client.Discovery().RESTClient().Get().AbsPath("/debug/pprof/goroutine").Param("debug", "1").DoRaw(n.t.Context())
	n.t.Errorf("the server had %+v and has %+v\n%s", before, now, text)
}

func TestKubectlExec(t *testing.T) {
	t.Parallel()
	n := withKubelet(t)
	n.pod("web", corev1.Container{})
	_, _, _ = n.run(nil, nil, "exec", "web", "--", "true") // what is made on first use is there
	for name, env := range transports {
		t.Run(name, func(t *testing.T) {
			before := n.resources(t.Context())
			out, errs, code := n.run(env, nil, "exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
			if out != "out\n" || !strings.HasPrefix(errs, "err\n") || !strings.Contains(errs, "exit code 7") || code != 7 {
				t.Errorf("%q, %q, %d", out, errs, code)
			}
			if out, errs, code := n.run(env, strings.NewReader("b\na\n"), "exec", "-i", "web", "--", "sort"); out != "a\nb\n" || code != 0 {
				t.Errorf("%q, %q, %d", out, errs, code)
			}
			if out, errs, code := n.run(env, nil, "exec", "web", "--", "no-such-program"); code != 1 || !strings.Contains(errs, "executable file not found") {
				t.Errorf("%q, %q, %d", out, errs, code)
			}
			n.endsUnread(env)
			if _, errs, code := n.run(env, nil, "exec", "web", "-c", "other", "--", "true"); code != 1 || !strings.Contains(errs, "container not found") && !strings.Contains(errs, "container other is not valid for pod web") {
				t.Errorf("%q, %d", errs, code)
			}
			n.released(before)
		})
	}
}

// endsUnread has a command end while input waits that it does not read. A kubelet closes the connection then, with the input unread, and
// what Linux has not sent of its last words by then is lost: on a busy machine that happens once in some thirty times.
func (n *node) endsUnread(env []string) {
	n.t.Helper()
	for tries := 1; ; tries++ {
		_, errs, code := n.run(env, bytes.NewReader(make([]byte, 4<<20)), "exec", "-i", "web", "--", "sh", "-c", "exit 3")
		lost := code == 1 && (strings.Contains(errs, "connection reset by peer") || strings.Contains(errs, "closed the connection before the command had ended"))
		switch {
		case code == 3:
			return
		case !lost || tries == 4:
			n.t.Errorf("try %d: %q, %d", tries, errs, code)
			return
		}
	}
}

func TestKubectlExecPipesMuch(t *testing.T) {
	t.Parallel()
	n := withKubelet(t)
	n.pod("web", corev1.Container{})
	size := *megabytes << 20
	for name, env := range transports {
		t.Run(name, func(t *testing.T) {
			ins := sha256.New()
			in := io.TeeReader(io.LimitReader(rand.Reader, int64(size)), ins)
			cmd := n.kubectl(t.Context(), "exec", "-i", "web", "--", "cat")
			cmd.Env = append(cmd.Env, env...)
			outs := sha256.New()
			var errs bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = in, outs, &errs
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v: %s", err, &errs)
			}
			if !bytes.Equal(ins.Sum(nil), outs.Sum(nil)) {
				t.Error("what came out is not what went in")
			}
		})
	}
}

func TestKubectlExecTerminal(t *testing.T) {
	t.Parallel()
	n := withKubelet(t)
	n.pod("web", corev1.Container{})
	for name, env := range transports {
		t.Run(name, func(t *testing.T) {
			control, terminal, err := standin.OpenTerminal()
			if err != nil {
				t.Skip(err)
			}
			defer control.Close()
			if err := standin.Resize(control, 80, 24); err != nil {
				t.Fatal(err)
			}
			cmd := n.kubectl(t.Context(), "exec", "-it", "web", "--", "sh")
			cmd.Env = append(cmd.Env, env...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
			cmd.SysProcAttr = inTerminal()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = terminal.Close()
			seen := newScreen(control)
			typed := func(line string) {
				if _, err := io.WriteString(control, line+"\n"); err != nil {
					t.Fatal(err)
				}
			}
			seen.await(t, "$ ")
			// The size is sent when the session begins, and when it changes.
			within(t, 20*time.Second, "the first size", func(context.Context) bool {
				typed("stty size")
				return seen.has("24 80")
			})
			if err := standin.Resize(control, 132, 50); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Process.Signal(windowChanged)
			within(t, 20*time.Second, "the second size", func(context.Context) bool {
				typed("stty size")
				return seen.has("50 132")
			})
			typed("exit 5")
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 5 {
				t.Errorf("%v; on the screen:\n%s", err, seen)
			}
		})
	}
}

func TestKubectlCp(t *testing.T) {
	t.Parallel()
	n := withKubelet(t)
	n.pod("web", corev1.Container{})
	dir := t.TempDir()
	data := make([]byte, 3<<20)
	_, _ = rand.Read(data)
	for _, d := range []string{"in", "there"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "in", "file"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := n.run(nil, nil, "cp", filepath.Join(dir, "in", "file"), "web:"+filepath.Join(dir, "there", "file")); code != 0 {
		t.Fatal(errs)
	}
	if _, errs, code := n.run(nil, nil, "cp", "web:"+filepath.Join(dir, "there", "file"), filepath.Join(dir, "back")); code != 0 {
		t.Fatal(errs)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "back")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestKubectlAttach(t *testing.T) {
	t.Parallel()
	n := withKubelet(t)
	n.pod("web", corev1.Container{Command: []string{"sh", "-c", "while read line; do echo got $line; done"}, Stdin: true})
	for name, env := range transports {
		t.Run(name, func(t *testing.T) {
			in, typed := io.Pipe()
			cmd := n.kubectl(t.Context(), "attach", "-i", "web")
			cmd.Env = append(cmd.Env, env...)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stdin = in
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			seen := newScreen(out)
			go func() { _, _ = io.WriteString(typed, "hello "+name+"\n") }()
			seen.await(t, "got hello "+name+"\n")
			_ = cmd.Process.Kill()
			_ = typed.Close()
			_ = cmd.Wait()
		})
	}
}

func TestKubectlLogs(t *testing.T) {
	t.Parallel()
	n := withKubelet(t)
	n.pod("web", corev1.Container{Command: []string{"sh", "-c", "while read line; do echo $line; done"}, Stdin: true})
	say := func(lines string) {
		t.Helper()
		if _, errs, code := n.run(nil, strings.NewReader(""), "exec", "web", "--", "true"); code != 0 {
			t.Fatal(errs)
		}
		n.kubelet.Say(t, "default", "web", "main", lines)
	}
	before := n.resources(t.Context())
	say("one\ntwo\nthree\n")
	within(t, 10*time.Second, "three lines", func(context.Context) bool {
		out, _, _ := n.run(nil, nil, "logs", "web")
		return out == "one\ntwo\nthree\n"
	})
	for args, want := range map[string]string{
		"--tail=1": "three\n", "--limit-bytes=5": "one\nt", "--since=1h": "one\ntwo\nthree\n", "--since-time=2999-01-01T00:00:00Z": "", "-c main --tail=2": "two\nthree\n",
	} {
		if out, errs, _ := n.run(nil, nil, append([]string{"logs", "web"}, strings.Fields(args)...)...); out != want {
			t.Errorf("%s: %q, %s", args, out, errs)
		}
	}
	if out, _, _ := n.run(nil, nil, "logs", "web", "--timestamps", "--tail=1"); !regexp.MustCompile(`^\d{4}-\S+Z three\n$`).MatchString(out) {
		t.Errorf("with a time: %q", out)
	}
	if _, errs, code := n.run(nil, nil, "logs", "web", "--previous"); code != 1 || !strings.Contains(errs, `(BadRequest): previous terminated container "main" in pod "web" not found`) {
		t.Errorf("previous: %d, %q", code, errs)
	}
	// Lines are seen as they come, across a rotation.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := n.kubectl(ctx, "logs", "-f", "web", "--tail=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := newScreen(out)
	within(t, 10*time.Second, "that it is followed", func(context.Context) bool { return n.kubelet.Followers() > 0 })
	say("four\n")
	seen.await(t, "four\n")
	n.kubelet.RotateLog(t, "default", "web", "main")
	say("five\n")
	seen.await(t, "four\nfive\n")
	cancel()
	_ = cmd.Wait()
	within(t, 10*time.Second, "that nobody follows", func(context.Context) bool { return n.kubelet.Followers() == 0 })
	n.released(settled{before.goroutines, before.descriptors + 2}) // a connection to the kubelet is kept for the next log
}

func TestEphemeralContainer(t *testing.T) {
	t.Parallel()
	n := withKubelet(t)
	n.pod("web", corev1.Container{})
	if _, errs, code := n.run(nil, nil, "debug", "web", "--image=busybox", "--container=debugger", "--attach=false", "--profile=general", "--", "sh"); code != 0 {
		t.Fatal(errs)
	}
	p, err := n.client.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.kubelet.RunEphemeral(t, p, "debugger")
	if out, errs, code := n.run(nil, nil, "exec", "web", "-c", "debugger", "--", "echo", "here"); out != "here\n" {
		t.Errorf("%q, %q, %d", out, errs, code)
	}
}
