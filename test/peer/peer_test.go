package peer

import (
	"net"
	"testing"
)

// No two tests that run at the same time are given the same port, and a port can be given again after a test.
func TestFreePort(t *testing.T) {
	given := map[string]bool{}
	for range 500 {
		port := FreePort(t)
		if given[port] {
			t.Fatalf("%s was given twice", port)
		}
		given[port] = true
		if held, err := net.ListenPacket("udp", "127.0.0.1:"+port); err == nil {
			_ = held.Close()
			t.Fatalf("nothing keeps %s for the test", port)
		}
	}
	var port string
	t.Run("ends", func(t *testing.T) { port = FreePort(t) })
	held, err := net.ListenPacket("udp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatalf("%s stays taken after its test: %v", port, err)
	}
	_ = held.Close()
}
