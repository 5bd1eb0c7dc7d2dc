package test

import (
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// screen is what a program has written so far.
type screen struct{ lockedBuffer }

func newScreen(r io.Reader) *screen {
	s := &screen{}
	go func() { _, _ = io.Copy(s, r) }()
	return s
}

func (s *screen) has(text string) bool { return strings.Contains(s.String(), text) }

func (s *screen) await(t testing.TB, text string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !s.has(text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q did not come; there is %q", text, s.String())
		}
	}
}

// inTerminal gives a process the terminal on its standard input.
func inTerminal() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true, Setctty: true} }

const windowChanged = syscall.SIGWINCH

func port(n uint16) string { return strconv.Itoa(int(n)) }
