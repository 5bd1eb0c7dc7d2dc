package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// runPackage runs a package's tests on kanzen, and those that do not pass there on kube-apiserver.
func runPackage(m *module, binary, pkg, tests string, skips map[string]string, s settings) *packageResult {
	p := &packageResult{Package: pkg, Tests: map[string]map[string]outcome{}, Skipped: skips, Reasons: map[string]string{}}
	began := time.Now()
	run := run{module: m, binary: binary, pkg: pkg, skips: skips, settings: s}
	p.Tests[kanzen], p.Reasons = run.on(server{kanzen, s.kanzen}, tests)
	p.Seconds = int(time.Since(began).Seconds())
	if failed := p.failed(); s.peer != "" && len(failed) > 0 {
		p.Tests[peer], _ = run.on(server{peer, s.peer}, "^("+strings.Join(failed, "|")+")$")
	}
	return p
}

// run is a package's test binary and what is left out of it.
type run struct {
	module      *module
	binary, pkg string
	skips       map[string]string
	settings    settings
}

// on runs the tests that the expression matches. A test that panics or hangs takes those after it along: they are run by another process.
func (r *run) on(server server, tests string) (map[string]outcome, map[string]string) {
	outcomes, reasons := map[string]outcome{}, map[string]string{}
	log := filepath.Join(r.settings.cache, "logs", server.name, strings.ReplaceAll(r.pkg, "/", "-")+".log")
	file, err := create(log)
	if err != nil {
		fmt.Printf("%s on %s: %v\n", r.pkg, server.name, err)
		return outcomes, reasons
	}
	defer file.Close()
	if tests == "" {
		tests = "."
	}
	for end := time.Now().Add(r.settings.timeout); time.Until(end) > 0; {
		before := len(outcomes)
		whole, err := r.process(server, tests, time.Until(end), file, outcomes, reasons)
		if err != nil {
			fmt.Printf("%s on %s: %v\n", r.pkg, server.name, err)
		}
		if whole || len(outcomes) == before {
			break
		}
	}
	return outcomes, reasons
}

func create(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.Create(path)
}

// process runs the tests that have no outcome yet in the package's folder, and tells whether it came to the last of them. Whatever it
// started and left behind ends with it.
func (r *run) process(server server, tests string, limit time.Duration, log io.Writer, outcomes map[string]outcome, reasons map[string]string) (whole bool, err error) {
	tmp, err := os.MkdirTemp("/tmp", "u") // short: etcd's socket lies in it, and a socket's path has an end
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(tmp)
	if err := r.module.fixtures(filepath.Join(tmp, "src")); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.binary, "-test.v", "-test.timeout="+limit.String(), "-test.run="+tests, "-test.skip="+skipPattern(r.skips, outcomes))
	cmd.Dir = filepath.Join(r.module.dir, "test/integration", r.pkg)
	cmd.Env = append(os.Environ(), "KUBE_APISERVER="+server.path, "TMPDIR="+tmp, "TEST_SRCDIR="+tmp, "TEST_WORKSPACE=src", "PATH="+filepath.Dir(r.settings.etcd)+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		return false, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		logged := io.TeeReader(out, log)
		if whole = follow(logged, outcomes, reasons); whole {
			kill := time.AfterFunc(wait, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
			defer kill.Stop()
		}
		_, _ = io.Copy(io.Discard, logged)
	}()
	_ = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	in.Close()
	<-done
	return whole, nil
}

// wait is how long a process may take to end after its last test. Some wait for minutes for goroutines to end.
const wait = 5 * time.Second

var (
	begins = regexp.MustCompile(`^=== RUN +(\S+)$`)
	ends   = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \(`)
	says   = regexp.MustCompile(`^ +\S+\.go:\d+: (.*)$`)
)

// follow reads what tests print until they come to their end, and tells whether they did. A test that has begun and not ended is cut off. What a test
// says last before it is skipped is why.
func follow(out io.Reader, outcomes map[string]outcome, reasons map[string]string) bool {
	lines := bufio.NewReaderSize(out, 1<<20)
	last := ""
	for {
		line, err := lines.ReadString('\n')
		line = strings.TrimRight(line, "\n")
		if m := begins.FindStringSubmatch(line); m != nil {
			outcomes[m[1]] = "cut"
		} else if line == "PASS" || line == "FAIL" {
			return true
		} else if m := says.FindStringSubmatch(line); m != nil {
			last = m[1]
		} else if m := ends.FindStringSubmatch(line); m != nil {
			outcomes[m[2]] = outcome(strings.ToLower(m[1]))
			if m[1] == "SKIP" {
				reasons[m[2]] = last
			}
		}
		if err != nil {
			return false
		}
	}
}
