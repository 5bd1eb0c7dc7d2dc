package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"syscall"
	"testing"
)

// TestLines tells errors that hold several a line each, and one that wraps several in one line.
func TestLines(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	for _, c := range []struct {
		err  error
		want []string
	}{
		{a, []string{"a"}},
		{errors.New("a\nb"), []string{"a; b"}},
		{errors.Join(a, b), []string{"a", "b"}},
		{errors.Join(a, fmt.Errorf("in: %w", b)), []string{"a", "in: b"}},
		{fmt.Errorf("--flag: %w", errors.Join(a, b)), []string{"--flag: a", "--flag: b"}},
		{fmt.Errorf("%w and %w", a, b), []string{"a and b"}},
		{fmt.Errorf("%w (twice)", errors.Join(a, b)), []string{"a; b (twice)"}},
		{&url.Error{Op: "Get", URL: "https://x", Err: syscall.ECONNREFUSED},
			[]string{`Get "https://x": connection refused; start the server, or name another with --kubeconfig or --data-dir`}},
	} {
		if got := lines(c.err); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.err, got, c.want)
		}
	}
}
