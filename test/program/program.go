// Package program runs the kanzen under test as a process of its own: that of the environment variable KANZEN, or one that is built.
package program

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
)

// Server is a process that serves.
type Server struct {
	Addr string // host:port
	PID  int
	Data string // its folder
	Log  string // the file that it writes its log to
}

// binary is the program under test.
var binary string

// Main runs the tests of a package whose folder is below test/, and returns their exit code. Its TestMain calls it.
func Main(m *testing.M) int {
	if binary = os.Getenv("KANZEN"); binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "kanzen-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "kanzen")
	build := exec.Command("go", "build", "-o", binary, "./cmd/kanzen")
	build.Dir = filepath.Join("..", "..")
	if b, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, b)
		return 1
	}
	return m.Run()
}

// Serve starts kanzen on a free port, with data of its own, until the test ends. token is of an administrator.
func Serve(t *testing.T, token string, flags ...string) *Server {
	t.Helper()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Server{Data: filepath.Join(dir, "data"), Log: filepath.Join(dir, "log")}
	log, err := os.Create(s.Log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(binary, append([]string{"serve", "--data-dir", s.Data, "--secure-port=0", "--token-auth-file", tokens}, flags...)...)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.PID = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()
		if b, err := os.ReadFile(s.Log); err == nil && t.Failed() {
			t.Logf("it said: %s", b[max(0, len(b)-4000):])
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := regexp.MustCompile(`https://(\S+:\d+)`).FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			s.Addr = m[1]
			return s
		}
	}
	t.Fatal("it does not say where it is")
	return nil
}
