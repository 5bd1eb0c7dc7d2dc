// Package balancer passes connections on to the API servers of a cluster that are ready, as what stands before several control planes does.
package balancer

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Balancer passes connections on to the servers of control planes that are ready, in turn. It is the endpoint of the control plane, as in a
// cluster with more than one.
type Balancer struct {
	client *http.Client

	mu       sync.Mutex
	backends []*backend
	next     int
}

// backend is a server; its fields are guarded by the Balancer's lock.
type backend struct {
	address string
	ready   bool
	missing int // probes in a row that had no answer
	conns   map[net.Conn]bool
}

// New returns a balancer that knows no server.
func New() *Balancer {
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the probe trusts nobody, and says nothing
	return &Balancer{client: &http.Client{Transport: transport, Timeout: 2 * time.Second}}
}

// Add lets the balancer look after another server.
func (b *Balancer) Add(ctx context.Context, address string) {
	of := &backend{address: address, conns: map[net.Conn]bool{}}
	b.mu.Lock()
	b.backends = append(b.backends, of)
	b.mu.Unlock()
	go b.probe(ctx, of)
}

// Start takes connections until the context ends.
func (b *Balancer) Start(ctx context.Context, listener net.Listener) {
	context.AfterFunc(ctx, func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go b.serve(conn)
		}
	}()
}

// Ready asks a server whether it is ready.
func (b *Balancer) Ready(address string) (bool, error) {
	response, err := b.client.Get("https://" + address + "/readyz")
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK, nil
}

// fall is how many probes in a row have no answer before a server counts as gone. A machine that does other work answers late.
const fall = 3

// probe asks a server whether it is ready. Connections to one that is gone are closed, so that clients need not wait for packets that
// nobody receives.
func (b *Balancer) probe(ctx context.Context, of *backend) {
	for ctx.Err() == nil {
		ready, err := b.Ready(of.address)
		b.mu.Lock()
		switch {
		case err == nil:
			of.ready, of.missing = ready, 0
		case of.missing+1 < fall:
			of.missing++
		default:
			of.ready = false
			for conn := range of.conns {
				conn.Close()
			}
		}
		b.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// choose returns the ready servers, beginning with the one whose turn it is.
func (b *Balancer) choose() (ready []*backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	for i := range b.backends {
		if of := b.backends[(b.next+i)%len(b.backends)]; of.ready {
			ready = append(ready, of)
		}
	}
	return ready
}

// serve passes on what comes from a client to a server, and back.
func (b *Balancer) serve(client net.Conn) {
	defer client.Close()
	for _, of := range b.choose() {
		server, err := net.DialTimeout("tcp", of.address, time.Second)
		if err != nil {
			continue
		}
		defer server.Close()
		b.mu.Lock()
		of.conns[server] = true
		b.mu.Unlock()
		go func() {
			_, _ = io.Copy(server, client)
			server.Close()
		}()
		_, _ = io.Copy(client, server)
		b.mu.Lock()
		delete(of.conns, server)
		b.mu.Unlock()
		return
	}
}
