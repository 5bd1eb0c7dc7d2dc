package frontproxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
)

type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A request is sent again if its connection had died before, and if nothing of it can have been received.
func TestRetries(t *testing.T) {
	dead := &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
	for _, c := range []struct {
		name, method, body string
		err                error
		reads              bool
		attempts           int
	}{
		{"a body that was not read", "POST", "x", dead, false, 2},
		{"a body that was read", "POST", "x", dead, true, 1},
		{"another error", "POST", "x", errors.New("reset"), false, 1},
		{"a reset after writing", "POST", "x", &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, false, 1},
		{"a read", "GET", "", dead, false, 2},
		{"a write without a body", "DELETE", "", dead, false, 1},
	} {
		attempts := 0
		next := roundTripper(func(r *http.Request) (*http.Response, error) {
			if attempts++; attempts == 1 {
				if c.reads {
					_, _ = io.ReadAll(r.Body)
				}
				_ = r.Body.Close() // as every RoundTripper does
				return nil, c.err
			}
			if body, err := io.ReadAll(r.Body); string(body) != c.body || err != nil {
				t.Errorf("%s: the second time %q, %v", c.name, body, err)
			}
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		})
		r := httptest.NewRequest(c.method, "/", strings.NewReader(c.body))
		if c.body == "" {
			r.Body = http.NoBody
		}
		resp, err := Retrying{Next: next}.RoundTrip(r)
		if resp != nil {
			_ = resp.Body.Close()
		}
		if attempts != c.attempts || (err == nil) != (attempts == 2) {
			t.Errorf("%s: %d attempts, %v", c.name, attempts, err)
		}
	}
}
