package testkit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a kanzen that serves control planes to this one.
type process struct {
	root   Access
	client *client // of root
	dir    string  // for files; the process removes it when it ends

	cmd   *exec.Cmd
	stdin io.Closer // the process ends when it closes, which it also does when this process ends
	log   *os.File  // what the process logs
}

// shared are the processes of this test binary. Tests call Start(t) with nothing in their hands that could carry them, and
// without them each test would wait for a process of its own.
var shared = processes{all: map[string]*pending{}}

// processes are those that run, by binary and flags.
type processes struct {
	mu  sync.Mutex
	all map[string]*pending // guarded by mu
}

// pending is a process that is started once, by whoever needs it first.
type pending struct {
	mu sync.Mutex
	*process
}

// process returns the process with some flags, which the first caller starts.
func (p *processes) process(ctx context.Context, binary string, flags []string) (*process, error) {
	key := strings.Join(append([]string{binary}, flags...), "\x00")
	p.mu.Lock()
	one := p.all[key]
	if one == nil {
		one = &pending{}
		p.all[key] = one
	}
	p.mu.Unlock()
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.process == nil {
		started, err := startProcess(ctx, binary, flags)
		if err != nil {
			return nil, err
		}
		one.process = started
	}
	return one.process, nil
}

// planeFlags let a process serve control planes to tests: they do not go to sleep, may call webhooks on this machine, and
// nobody asks afterwards what they did.
var planeFlags = []string{"--planes", "--planes-idle=0", "--planes-awake=0", "--planes-dial-local", "--flight-recorder-memory=0"}

// startProcess starts a process and waits until it serves.
func startProcess(ctx context.Context, binary string, flags []string) (_ *process, err error) {
	p := &process{}
	if p.log, err = logFile(); err != nil {
		return nil, err
	}
	args := append(append([]string{"test", "--until-stdin-closes"}, planeFlags...), flags...)
	p.cmd = exec.Command(binary, args...)
	p.cmd.Stderr = p.log
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start kanzen: %w", err)
	}
	defer func() {
		if err != nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
			err = p.startError(binary, err)
		}
	}()
	line, err := firstLine(ctx, stdout)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(line)
	if err != nil {
		return nil, err
	}
	if p.root, err = readKubeconfig(text); err != nil {
		return nil, err
	}
	p.root.kubeconfig, p.dir = line, filepath.Dir(line)
	p.client, err = p.root.client()
	return p, err
}

// firstLine reads a line, which has the path of the administrator's kubeconfig.
func firstLine(ctx context.Context, from io.Reader) (string, error) {
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() { // ends with the process at the latest
		line, err := bufio.NewReader(from).ReadString('\n')
		read <- result{strings.TrimSpace(line), err}
	}()
	select {
	case r := <-read:
		return r.line, r.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// startError says why a process did not come up.
func (p *process) startError(binary string, err error) error {
	log := strings.Join(p.logSince(0), "\n")
	switch {
	case strings.Contains(log, "until-stdin-closes"), strings.Contains(log, "unknown command"):
		return fmt.Errorf("%s is older than this test kit, or no kanzen; update it, or name another by KANZEN", binary)
	case errors.Is(err, io.EOF) && log != "": // it has said why it ended
		return fmt.Errorf("%s: %s", binary, strings.TrimPrefix(log, "Error: "))
	}
	return fmt.Errorf("%s did not come up: %w\n%s", binary, err, log)
}

// logFile makes a file for a log. It has no name where the system allows that, so that nobody has to remove it.
func logFile() (*os.File, error) {
	f, err := os.CreateTemp("", "testkit-*.log")
	if err == nil {
		_ = os.Remove(f.Name())
	}
	return f, err
}

// logged is how much the process has logged.
func (p *process) logged() int64 {
	info, err := p.log.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// logSince returns the lines that the process logged after it had logged so much.
func (p *process) logSince(at int64) []string {
	text, _ := io.ReadAll(io.NewSectionReader(p.log, at, 1<<62)) // what could be read is better than nothing
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// explained adds the end of the log to an error if the process is gone.
func (p *process) explained(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		lines := p.logSince(0)
		return fmt.Errorf("kanzen has ended: %w\n%s", err, strings.Join(lines[max(0, len(lines)-maxExplained):], "\n"))
	}
	return err
}

// endTimeout is how long a process may take to stop.
const endTimeout = 20 * time.Second

// end stops the process.
func (p *process) end() error {
	p.client.CloseIdleConnections()
	_ = p.stdin.Close()
	late := time.AfterFunc(endTimeout, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	err := p.cmd.Wait()
	if err != nil {
		err = p.explained(fmt.Errorf("stop kanzen: %w\n%s", err, strings.Join(p.logSince(0), "\n")))
	}
	return errors.Join(err, p.log.Close())
}
