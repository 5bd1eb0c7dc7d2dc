package test

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A service manager is told when the server is ready, and when it stops: sd_notify(3), as `Type=notify` in the unit asks.
func TestServiceManagerIsTold(t *testing.T) {
	dir, err := os.MkdirTemp("", "notify-") // the path of a socket must be short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "socket")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	defer manager.Close()
	told := func() string {
		t.Helper()
		must(t, manager.SetReadDeadline(time.Now().Add(60*time.Second)))
		b := make([]byte, 256)
		n, err := manager.Read(b)
		must(t, err)
		return string(b[:n])
	}
	t.Setenv("NOTIFY_SOCKET", path)
	k := serve(t, t.TempDir())
	if got := told(); got != "READY=1" {
		t.Errorf("it says %q, want READY=1", got)
	}
	if _, err := k.client().Discovery().ServerVersion(); err != nil {
		t.Errorf("ready, and yet: %v", err)
	}
	if code, _ := k.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if got := told(); got != "STOPPING=1" {
		t.Errorf("it says %q, want STOPPING=1", got)
	}
}
