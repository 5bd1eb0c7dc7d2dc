package peers

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// balancer passes connections on to one server, and new ones to another once it is told so.
type balancer struct {
	net.Listener

	mu sync.Mutex
	to string
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	b := &balancer{Listener: l}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go b.pass(conn)
		}
	}()
	return b
}

// lead leads new connections to a server.
func (b *balancer) lead(host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = strings.TrimPrefix(host, "https://")
}

func (b *balancer) pass(client net.Conn) {
	defer client.Close()
	b.mu.Lock()
	to := b.to
	b.mu.Unlock()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return // the client tries again
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}
