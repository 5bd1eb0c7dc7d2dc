package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"k8s.io/apiserver/pkg/apis/apiserver"
)

// maxAnswer bounds a proxy's response before the connection begins, in bytes.
const maxAnswer = 1 << 20

type dialProxy func(ctx context.Context) (net.Conn, error)

// httpConnect connects through an HTTP CONNECT proxy. name identifies it in errors.
func httpConnect(name string, dial dialProxy) func(context.Context) (ask, error) {
	return func(ctx context.Context) (ask, error) {
		conn, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, addr string) (net.Conn, error) {
			through, err := askHTTP(ctx, conn, name, addr)
			if err != nil {
				_ = conn.Close() // the request failed; ignore the error of Close
			}
			return through, err
		}, nil
	}
}

// past is a deadline that has passed: it interrupts reads and writes.
var past = time.Unix(1, 0)

func askHTTP(ctx context.Context, conn net.Conn, name, addr string) (net.Conn, error) {
	release := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(past) })
	resp, br, err := connectRequest(conn, addr)
	if !release() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("reading HTTP response from CONNECT to %s via proxy %s failed: %w", addr, name, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("proxy error from %s while dialing %s, code %d: %.256s", name, addr, resp.StatusCode, resp.Status)
	}
	if n := br.Buffered(); n > 0 {
		// The destination may send first, as an HTTP/2 server may.
		early, _ := br.Peek(n)
		return &begun{Conn: conn, read: io.MultiReader(bytes.NewReader(early), conn)}, nil
	}
	return conn, nil
}

// connectRequest sends a CONNECT request and reads the response header.
func connectRequest(conn net.Conn, addr string) (*http.Response, *bufio.Reader, error) {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	if err := req.Write(conn); err != nil {
		return nil, nil, err
	}
	br := bufio.NewReader(io.LimitReader(conn, maxAnswer))
	// The response body is the connection.
	resp, err := http.ReadResponse(br, req)
	return resp, br, err
}

// begun is a connection with data that has already been read into a buffer.
type begun struct {
	net.Conn
	read io.Reader
}

// Read is part of net.Conn.
func (b *begun) Read(p []byte) (int, error) { return b.read.Read(p) }

// unix connects to a proxy over a Unix socket.
func unix(path string) dialProxy {
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
}

// tcp connects to a proxy over TCP, with TLS if its URL is https.
func tcp(t *apiserver.TCPTransport) (address string, _ dialProxy, err error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		return "", nil, fmt.Errorf("invalid proxy server url %q: %w", t.URL, err)
	}
	address = u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	if t.TLSConfig == nil {
		return address, func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) }, nil
	}
	cfg, err := tlsConfig(t.TLSConfig)
	if err != nil {
		return "", nil, err
	}
	d := &tls.Dialer{Config: cfg}
	return address, func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }, nil
}

func tlsConfig(t *apiserver.TLSConfig) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(t.ClientCert, t.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("failed to read key pair %s & %s, got %w", t.ClientCert, t.ClientKey, err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, ServerName: t.TLSServerName}
	if t.CABundle == "" {
		return cfg, nil // with the host's root CAs
	}
	pem, err := os.ReadFile(t.CABundle)
	if err != nil {
		return nil, fmt.Errorf("failed to read cert file %s, got %w", t.CABundle, err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("failed to append CA cert to the cert pool")
	}
	return cfg, nil
}
