//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// balancer passes connections on to the servers of control planes that are ready, in turn. It is the endpoint of the control plane, as in a
// cluster with more than one.
type balancer struct {
	client *http.Client

	mu       sync.Mutex
	backends []*backend
	next     int
}

// backend is a server; its fields are guarded by the balancer's lock.
type backend struct {
	address string
	ready   bool
	missing int // probes in a row that had no answer
	conns   map[net.Conn]bool
}

func newBalancer() *balancer {
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the probe trusts nobody, and says nothing
	return &balancer{client: &http.Client{Transport: transport, Timeout: 2 * time.Second}}
}

// add lets the balancer look after another server.
func (b *balancer) add(ctx context.Context, address string) {
	of := &backend{address: address, conns: map[net.Conn]bool{}}
	b.mu.Lock()
	b.backends = append(b.backends, of)
	b.mu.Unlock()
	go b.probe(ctx, of)
}

// start takes connections until the context ends.
func (b *balancer) start(ctx context.Context, listener net.Listener) {
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

// fall is how many probes in a row have no answer before a server counts as gone. A machine that does other work answers late.
const fall = 3

// probe asks a server whether it is ready. Connections to one that is gone are closed, so that clients need not wait for packets that
// nobody receives.
func (b *balancer) probe(ctx context.Context, of *backend) {
	for ctx.Err() == nil {
		response, err := b.client.Get("https://" + of.address + "/readyz")
		if err == nil {
			response.Body.Close()
		}
		b.mu.Lock()
		switch {
		case err == nil:
			of.ready, of.missing = response.StatusCode == http.StatusOK, 0
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
func (b *balancer) choose() (ready []*backend) {
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
func (b *balancer) serve(client net.Conn) {
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

// serial is the number of the certificate that a server shows.
func serial(address string) (string, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Second}, "tcp", address, &tls.Config{InsecureSkipVerify: true}) // it is looked at, not trusted
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return fmt.Sprint(conn.ConnectionState().PeerCertificates[0].SerialNumber), nil
}
