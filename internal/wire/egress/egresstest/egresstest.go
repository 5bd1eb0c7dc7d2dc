// Package egresstest provides proxies for tests, and writes egress selector configurations that name them.
package egresstest

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
)

// Proxy is a proxy that records the requested addresses.
type Proxy struct {
	// Connection is the proxy's connection in an egress selection, as YAML.
	Connection string
	// url and dir are set for a proxy with TLS: its URL, and the directory of its certificate and key, which also serve
	// as a client's.
	url, dir string
	// to, if set, is the real destination of all connections, so that requested addresses need not exist.
	to string

	mu    sync.Mutex
	asked []string // guarded by mu
}

// Asked returns the requested addresses, in order.
func (p *Proxy) Asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.asked...)
}

// dial connects to an address on behalf of a client.
func (p *Proxy) dial(addr string) (net.Conn, error) {
	p.mu.Lock()
	p.asked = append(p.asked, addr)
	p.mu.Unlock()
	if p.to != "" {
		addr = p.to
	}
	return net.Dial("tcp", addr)
}

// ServeHTTP is part of http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "CONNECT only", http.StatusMethodNotAllowed)
		return
	}
	there, err := p.dial(r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer there.Close()
	here, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	_, _ = io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n")
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(there, here); _ = there.Close() })
	_, _ = io.Copy(here, there)
	_ = here.Close()
	wg.Wait()
}

// OverTLS starts an HTTP CONNECT proxy with TLS that requires its own certificate as the client certificate.
func OverTLS(t testing.TB, to string) *Proxy {
	t.Helper()
	p := &Proxy{to: to, dir: t.TempDir()}
	pair := pkitest.Server(t, "127.0.0.1")
	pair.Write(t, p.dir)
	authority := x509.NewCertPool()
	authority.AddCert(pair.Cert)
	s := httptest.NewUnstartedServer(p)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair.TLS()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	p.url = s.URL
	p.Connection = p.ConnectionWith(p, p)
	return p
}

// ConnectionWith returns the connection to a proxy over TLS, with the CA of one proxy and the client certificate of
// another.
func (p *Proxy) ConnectionWith(authority, client *Proxy) string {
	return fmt.Sprintf(`{proxyProtocol: HTTPConnect, transport: {tcp: {url: "%s", tlsConfig: {caBundle: %s/cert, clientCert: %s/cert, clientKey: %s/key}}}}`,
		p.url, authority.dir, client.dir, client.dir)
}

// OverTCP starts an HTTP CONNECT proxy without TLS.
func OverTCP(t testing.TB, to string) *Proxy {
	t.Helper()
	p := &Proxy{to: to}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	p.Connection = fmt.Sprintf(`{proxyProtocol: HTTPConnect, transport: {tcp: {url: "%s"}}}`, s.URL)
	return p
}

// OverUnix starts an HTTP CONNECT proxy on a Unix socket.
func OverUnix(t testing.TB, to string) *Proxy {
	t.Helper()
	p := &Proxy{to: to}
	s := httptest.NewUnstartedServer(p)
	_ = s.Listener.Close()
	var socket string
	s.Listener, socket = Listen(t)
	s.Start()
	t.Cleanup(s.Close)
	p.Connection = fmt.Sprintf(`{proxyProtocol: HTTPConnect, transport: {uds: {udsName: %s}}}`, socket)
	return p
}

// Listen opens a Unix socket.
func Listen(t testing.TB) (l net.Listener, socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "egress") // the test's own directory may be too long for a socket path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	if l, err = net.Listen("unix", socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, socket
}

// Write writes a configuration with the connections, keyed by network, and returns its path.
func Write(t testing.TB, connections map[string]string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n")
	for name, c := range connections {
		fmt.Fprintf(&b, "- {name: %s, connection: %s}\n", name, c)
	}
	path := filepath.Join(t.TempDir(), "egress.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
