package suite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Outcome of a test: pass, fail, skip, or cut (the process ended before the test did).
type Outcome string

// Results say how tests, and parts of tests, ended.
type Results struct {
	Outcomes map[string]Outcome // by the name of the test
	Reasons  map[string]string  // what a test said last before it skipped itself
	Ginkgo   map[string]bool    // the tests that are suites of Ginkgo
}

// Binary is a package's tests, compiled.
type Binary struct {
	Path, Dir string // the folder is the package's
	Args      []string
	// Prepare returns the environment of a process, which has a temporary folder of its own.
	Prepare func(tmp string) (env []string, err error)
}

// Run runs the tests that the expression matches, but for those to skip. A test that panics or hangs takes those after it along: they are
// run by another process. All of this ends at the limit.
func (b *Binary) Run(tests string, skip []string, limit time.Duration, log io.Writer) (Results, error) {
	r := Results{Outcomes: map[string]Outcome{}, Reasons: map[string]string{}, Ginkgo: map[string]bool{}}
	for end := time.Now().Add(limit); time.Until(end) > 0; {
		before := len(r.Outcomes)
		whole, err := b.process(tests, skip, time.Until(end), log, r)
		if err != nil {
			return r, err
		}
		if whole || len(r.Outcomes) == before {
			break
		}
	}
	return r, nil
}

// process runs the tests that have no outcome yet in the package's folder, and tells whether it came to the last of them. Whatever it
// started and left behind ends with it.
func (b *Binary) process(tests string, skip []string, limit time.Duration, log io.Writer, results Results) (whole bool, err error) {
	tmp, err := os.MkdirTemp("/tmp", "u") // short: etcd's socket lies in it, and a socket's path has an end
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(tmp)
	env, err := b.Prepare(tmp)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
	defer cancel()
	args := []string{"-test.v=test2json", "-test.timeout=" + limit.String(), "-test.run=" + tests, "-test.skip=" + skipPattern(skip, results.Outcomes)}
	cmd := exec.CommandContext(ctx, b.Path, append(args, b.Args...)...)
	cmd.Dir, cmd.Env = b.Dir, append(env, "TMPDIR="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return killSession(cmd.Process.Pid) }
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
		if whole = follow(logged, results); whole {
			kill := time.AfterFunc(wait, func() { _ = killSession(cmd.Process.Pid) })
			defer kill.Stop()
		}
		_, _ = io.Copy(io.Discard, logged)
	}()
	_ = cmd.Wait()
	_ = killSession(cmd.Process.Pid)
	in.Close()
	<-done
	return whole, nil
}

// wait is how long a process may take to end after its last test. Some wait for minutes for goroutines to end.
const wait = 5 * time.Second

// killSession kills the processes of a session. Servers that tests start are in process groups of their own.
func killSession(session int) error {
	err := syscall.Kill(-session, syscall.SIGKILL)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, readErr := os.ReadFile(path)
		if readErr != nil {
			continue // it has ended
		}
		var pid, parent, group, of int
		var state string
		// The name of the program is in parentheses, and can have any character.
		_, _ = fmt.Sscan(string(b), &pid)
		_, _ = fmt.Sscan(string(b[strings.LastIndexByte(string(b), ')')+1:]), &state, &parent, &group, &of)
		if of == session {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return err
}

var (
	begins = regexp.MustCompile(`^=== RUN +(\S+)$`)
	ends   = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \(`)
	says   = regexp.MustCompile(`^ +\S+\.go:\d+: (.*)$`)
)

// mark precedes what Go itself prints, so that it is found where a test has printed half a line before.
const mark = "\x16"

// follow reads what tests print until they come to their end, and tells whether they did. A test that has begun and not ended is cut off. What a test
// says last before it is skipped is why.
func follow(out io.Reader, r Results) bool {
	lines := bufio.NewReaderSize(out, 1<<20)
	said, begun := "", ""
	for {
		line, err := lines.ReadString('\n')
		line = strings.TrimRight(line, "\n")
		line = line[strings.LastIndex(line, mark)+1:]
		if m := begins.FindStringSubmatch(line); m != nil {
			begun = m[1]
			r.Outcomes[begun] = "cut"
		} else if line == "PASS" || line == "FAIL" {
			return true
		} else if strings.HasPrefix(line, "Running Suite: ") {
			r.Ginkgo[begun] = true
		} else if m := says.FindStringSubmatch(line); m != nil {
			said = m[1]
		} else if m := ends.FindStringSubmatch(line); m != nil {
			r.Outcomes[m[2]] = Outcome(strings.ToLower(m[1]))
			if m[1] == "SKIP" {
				r.Reasons[m[2]] = said
			}
		}
		if err != nil {
			return false
		}
	}
}

// skipPattern matches the tests that are left out, those that have an outcome, and nothing else.
func skipPattern(skip []string, outcomes map[string]Outcome) string {
	names := slices.Clone(skip)
	for name := range outcomes {
		if name == Root(name) {
			names = append(names, name)
		}
	}
	for i, name := range names {
		names[i] = "^" + strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^") + "$"
	}
	slices.Sort(names)
	return strings.Join(names, "|")
}

// Root is the whole test of a part of one.
func Root(name string) string {
	name, _, _ = strings.Cut(name, "/")
	return name
}

// Version asks a server that is named kube-apiserver for its version.
func Version(program string) (string, error) {
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", program, err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "Kubernetes v"), nil
}

// Create creates a file and the folders that it is in.
func Create(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.Create(path)
}
