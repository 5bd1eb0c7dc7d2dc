package testkit_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/testkit"
)

// helperVariable has this test binary play a test of somebody else, which ends in some way.
const helperVariable = "TESTKIT_HELPER"

// TestHelper is that test.
func TestHelper(t *testing.T) {
	how := os.Getenv(helperVariable)
	if how == "" {
		t.Skip("it is run by TestEnd")
	}
	s := testkit.Start(t)
	fmt.Println("server", s.URL, s.Kubeconfig())
	switch how {
	case "panic":
		panic("somewhere")
	case "exit":
		os.Exit(3)
	case "killed":
		select {}
	}
}

// TestEnd has no process and no file left, however a test binary ends.
func TestEnd(t *testing.T) {
	needKanzen(t)
	for _, how := range []string{"passes", "panic", "exit", "killed"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			temporary := t.TempDir()
			cmd := exec.Command(os.Args[0], "-test.run=^TestHelper$", "-test.v")
			cmd.Env = append(os.Environ(), helperVariable+"="+how, "TMPDIR="+temporary)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var at, file string
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if words := strings.Fields(lines.Text()); len(words) == 3 && words[0] == "server" {
					at, file = words[1], words[2]
					break
				}
			}
			if file == "" || !strings.HasPrefix(file, temporary) {
				t.Fatalf("no server: %q", file)
			}
			if how == "killed" {
				_ = cmd.Process.Kill()
			}
			_ = cmd.Wait()
			u, err := url.Parse(at)
			if err != nil {
				t.Fatal(err)
			}
			within(t, "the server ends", func() bool {
				c, err := net.Dial("tcp", u.Host)
				if err == nil {
					_ = c.Close()
				}
				return err != nil
			})
			within(t, "its files go", func() bool {
				left, err := os.ReadDir(temporary)
				return err == nil && len(left) == 0
			})
		})
	}
}

func within(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// TestProcessIsKilled has tests told of a server that is gone why it went.
func TestProcessIsKilled(t *testing.T) {
	needKanzen(t)
	t.Parallel()
	s := testkit.Start(t, testkit.OwnProcess())
	begun := time.Now()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	t.Logf("stopped after %v", time.Since(begun))
	if err := s.Install(context.Background(), testkit.YAML("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}")); err == nil || !strings.Contains(err.Error(), "kanzen has ended") {
		t.Error(err)
	}
}
