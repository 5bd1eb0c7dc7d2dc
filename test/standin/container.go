package standin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// container is a process with a log. Others can be run in it, and all of them are processes of this machine.
type container struct {
	name  string
	log   *logFile
	cmd   *exec.Cmd
	stdin io.WriteCloser // nil: it has none
	done  chan struct{}

	mu       sync.Mutex
	attached map[*io.PipeWriter]bool // guarded by mu
}

// runContainer starts the process of a container.
func (k *Kubelet) runContainer(t testing.TB, p *corev1.Pod, name string, command []string, stdin, tty bool) {
	t.Helper()
	id := p.Namespace + "/" + p.Name + "/" + name
	log, err := newLogFile(filepath.Join(k.dir, p.Namespace+"_"+p.Name+"_"+name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	if len(command) == 0 {
		command = []string{"sleep", "3600"}
	}
	c := &container{name: name, log: log, done: make(chan struct{}), attached: map[*io.PipeWriter]bool{}}
	c.cmd = exec.Command(command[0], command[1:]...)
	c.cmd.Dir = k.dir
	c.cmd.Stdout, c.cmd.Stderr = output{c, "stdout"}, output{c, "stderr"}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.cmd.WaitDelay = time.Second
	if stdin || tty {
		if c.stdin, err = c.cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.cmd.Wait()
		log.end()
		c.detach()
		close(c.done)
	}()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.containers[id] = c
}

// RotateLog renames the log of a container and begins another, as container runtimes do.
func (k *Kubelet) RotateLog(t testing.TB, namespace, pod, name string) {
	t.Helper()
	k.mu.Lock()
	c := k.containers[namespace+"/"+pod+"/"+name]
	k.mu.Unlock()
	if err := c.log.rotate(); err != nil {
		t.Fatal(err)
	}
}

// RunEphemeral starts an ephemeral container, which others may run commands in.
func (k *Kubelet) RunEphemeral(t testing.TB, p *corev1.Pod, name string) {
	t.Helper()
	k.runContainer(t, p, name, nil, false, false)
}

// Say writes to the standard input of a container.
func (k *Kubelet) Say(t testing.TB, namespace, pod, name, text string) {
	t.Helper()
	k.mu.Lock()
	c := k.containers[namespace+"/"+pod+"/"+name]
	k.mu.Unlock()
	if _, err := io.WriteString(c.stdin, text); err != nil {
		t.Fatal(err)
	}
}

// Followers is how many logs are being followed.
func (k *Kubelet) Followers() int { return int(k.followers.Load()) }

// stop ends the process.
func (c *container) stop() {
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // it may have ended already
	<-c.done
}

// output is what a container writes: to its log, and to those who are attached.
type output struct {
	c      *container
	stream string
}

func (o output) Write(p []byte) (int, error) {
	o.c.mu.Lock()
	for w := range o.c.attached {
		if _, err := w.Write(p); err != nil {
			delete(o.c.attached, w)
		}
	}
	o.c.mu.Unlock()
	return o.c.log.write(o.stream, p)
}

func (c *container) detach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.attached {
		_ = w.Close()
		delete(c.attached, w)
	}
}

// AttachContainer is part of remotecommand.Attacher.
func (c *container) AttachContainer(_ context.Context, _, _, _ string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	r, w := io.Pipe()
	c.mu.Lock()
	c.attached[w] = true
	c.mu.Unlock()
	defer r.Close()
	if in != nil && c.stdin != nil {
		go func() { _, _ = io.Copy(c.stdin, in) }()
	}
	if out == nil {
		<-c.done
		return nil
	}
	_, err := io.Copy(out, r)
	return err
}

// ExecInContainer is part of remotecommand.Executor.
func (c *container) ExecInContainer(ctx context.Context, _, _, _ string, command []string, in io.Reader, out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if len(command) == 0 {
		return errors.New("no command")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = c.cmd.Dir, append(os.Environ(), "TERM=dumb", "PS1=$ ")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !tty, Pdeathsig: syscall.SIGKILL}
	if tty {
		return exitOf(runInTerminal(cmd, in, out, resize))
	}
	cmd.WaitDelay = time.Second
	if out != nil {
		cmd.Stdout = out
	}
	if errs != nil {
		cmd.Stderr = errs
	}
	if in == nil {
		return exitOf(cmd.Run())
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		// A client that is gone ends the input with an error.
		if _, err := io.Copy(stdin, in); err != nil {
			cancel()
		}
		_ = stdin.Close()
	}()
	return exitOf(cmd.Wait())
}

// exitOf makes the error of a process the kind that a client is told the code of.
func exitOf(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return utilexec.CodeExitError{Err: fmt.Errorf("exit code %d", exit.ExitCode()), Code: exit.ExitCode()}
	}
	return err
}
