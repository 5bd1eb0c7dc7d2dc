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
	"sync"
	"syscall"
	"time"
)

// runPackage runs a package's tests on all servers at once, or one after the other if it says that it cannot share a machine.
func runPackage(m *module, binary, pkg, tests string, skips map[string]string, servers []server, s settings) *packageResult {
	p := &packageResult{Package: pkg, Tests: map[string]map[string]outcome{}, Skipped: map[string]string{}, Reasons: map[string]string{}}
	for name, reason := range skips {
		if name != "*alone*" {
			p.Skipped[name] = reason
		}
	}
	_, alone := skips["*alone*"]
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, server := range servers {
		one := func() {
			outcomes, reasons := execute(m, binary, pkg, tests, p.Skipped, server, s)
			mu.Lock()
			defer mu.Unlock()
			p.Tests[server.name] = outcomes
			for name, reason := range reasons {
				p.Reasons[name] = reason
			}
		}
		if alone {
			one()
		} else {
			wg.Go(one)
		}
	}
	wg.Wait()
	return p
}

// execute runs a test binary in its package's folder. Whatever it started and left behind ends with it.
func execute(m *module, binary, pkg, tests string, skips map[string]string, server server, s settings) (map[string]outcome, map[string]string) {
	log := filepath.Join(s.cache, "logs", server.name, strings.ReplaceAll(pkg, "/", "-")+".log")
	outcomes, reasons := map[string]outcome{}, map[string]string{}
	fail := func(err error) (map[string]outcome, map[string]string) {
		fmt.Printf("%s on %s: %v\n", pkg, server.name, err)
		return outcomes, reasons
	}
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return fail(err)
	}
	file, err := os.Create(log)
	if err != nil {
		return fail(err)
	}
	defer file.Close()
	tmp, err := os.MkdirTemp("/tmp", "u") // short: etcd's socket lies in it, and a socket's path has an end
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(tmp)
	if err := m.fixtures(filepath.Join(tmp, "src")); err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout+time.Minute)
	defer cancel()
	if tests == "" {
		tests = "."
	}
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.timeout="+s.timeout.String(), "-test.run="+tests, "-test.skip="+skipPattern(skips))
	cmd.Dir = filepath.Join(m.dir, "test/integration", pkg)
	cmd.Env = append(os.Environ(), "KUBE_APISERVER="+server.path, "TMPDIR="+tmp, "TEST_SRCDIR="+tmp, "TEST_WORKSPACE=src", "PATH="+filepath.Dir(s.etcd)+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		follow(io.TeeReader(out, file), outcomes, reasons)
	}()
	cmd.WaitDelay = 5 * time.Second
	_ = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	in.Close()
	<-done
	return outcomes, reasons
}

var (
	begins = regexp.MustCompile(`^=== RUN +(\S+)$`)
	ends   = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \(`)
	says   = regexp.MustCompile(`^ +\S+\.go:\d+: (.*)$`)
)

// follow reads what tests print. A test that has begun and not ended is cut off. What a test says last before it is skipped is why.
func follow(out io.Reader, outcomes map[string]outcome, reasons map[string]string) {
	lines := bufio.NewReaderSize(out, 1<<20)
	last := ""
	for {
		line, err := lines.ReadString('\n')
		line = strings.TrimRight(line, "\n")
		if m := begins.FindStringSubmatch(line); m != nil {
			outcomes[m[1]] = "cut"
		} else if m := says.FindStringSubmatch(line); m != nil {
			last = m[1]
		} else if m := ends.FindStringSubmatch(line); m != nil {
			outcomes[m[2]] = outcome(strings.ToLower(m[1]))
			if m[1] == "SKIP" {
				reasons[m[2]] = last
			}
		}
		if err != nil {
			return
		}
	}
}
