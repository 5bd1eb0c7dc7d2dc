//go:build unix

package listen

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func listening(t *testing.T, addr string, s Sharing) net.Listener {
	t.Helper()
	l, err := TCP(t.Context(), addr, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Two share a port if both permit it, and the one that is left takes all connections.
func TestPortIsShared(t *testing.T) {
	first := listening(t, "127.0.0.1:0", Sharing{Port: true})
	addr := first.Addr().String()
	if _, err := TCP(t.Context(), addr, Sharing{}); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "--secure-port") {
		t.Fatalf("without leave to share: %v", err)
	}
	second := listening(t, addr, Sharing{Port: true})
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	go func() {
		if c, err := second.Accept(); err == nil {
			_, _ = io.WriteString(c, "second")
			_ = c.Close()
		}
	}()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if said, err := io.ReadAll(c); string(said) != "second" {
		t.Errorf("%q, %v", said, err)
	}
}

func TestPortIsNotShared(t *testing.T) {
	addr := listening(t, "127.0.0.1:0", Sharing{Address: true}).Addr().String()
	if _, err := TCP(t.Context(), addr, Sharing{Port: true, Address: true}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the first one has not permitted it: %v", err)
	}
}

// The socket has the options that were asked for.
func TestOptions(t *testing.T) {
	for _, s := range []Sharing{{}, {Port: true}, {Address: true}, {Port: true, Address: true}} {
		raw, err := listening(t, "127.0.0.1:0", s).(*net.TCPListener).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var port, address int
		if err := raw.Control(func(fd uintptr) {
			port, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT)
			address, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR)
		}); err != nil {
			t.Fatal(err)
		}
		if (port != 0) != s.Port || s.Address && address == 0 {
			t.Errorf("%+v: SO_REUSEPORT %d, SO_REUSEADDR %d", s, port, address)
		}
	}
}
