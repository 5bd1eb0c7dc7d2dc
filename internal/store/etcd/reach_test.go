package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
)

// TestReachAdvises connects to what is not etcd's client URL, or not in the way that it wants. Each is told with what to do.
func TestReachAdvises(t *testing.T) {
	ca := pkitest.Issue(t, pkitest.Authority("ca"), nil)
	other := pkitest.Issue(t, pkitest.Authority("other"), nil)
	pool := func(p *pkitest.Pair) *x509.CertPool {
		out := x509.NewCertPool()
		out.AddCert(p.Cert)
		return out
	}
	template := pkitest.Authority("server")
	template.IsCA, template.KeyUsage, template.IPAddresses = false, x509.KeyUsageDigitalSignature, []net.IP{net.IPv4(127, 0, 0, 1)}
	server := pkitest.Issue(t, template, ca)
	certificate := tls.Certificate{Certificate: [][]byte{server.Cert.Raw}, PrivateKey: server.Key}

	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	h2 := httptest.NewUnstartedServer(http.NotFoundHandler())
	h2.Config.Protocols = new(http.Protocols)
	h2.Config.Protocols.SetUnencryptedHTTP2(true)
	h2.Start()
	defer h2.Close()
	secure := accept(t, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}})
	strict := accept(t, &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool(ca), NextProtos: []string{"h2"}})
	closing := accept(t, nil)
	for _, c := range []struct {
		name, url string
		trusts    *pkitest.Pair
		says      string
	}{
		{"without TLS where it is wanted", "http://" + secure, nil, "if it wants that, its URL is https://"},
		{"where connections are closed", "http://" + closing, nil, "if it wants that, its URL is https://"},
		{"a web server", web.URL, nil, "is the port right?"},
		{"what may be etcd", h2.URL, nil, ""},
		{"with TLS where there is none", strings.Replace(web.URL, "http:", "https:", 1), ca, "if it does not want TLS, its URL is http://"},
		{"with TLS where connections are closed", "https://" + closing, ca, "if it does not want TLS, its URL is http://"},
		{"another authority", "https://" + secure, other, "name its authority with --etcd-cafile"},
		{"the right one", "https://" + secure, ca, ""},
		{"without a certificate", "https://" + strict, ca, "--etcd-certfile, --etcd-keyfile"},
	} {
		cluster := Cluster{Endpoints: []string{c.url}}
		if c.trusts != nil {
			cluster.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool(c.trusts)}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := cluster.reach(ctx)
		cancel()
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), c.url+": ")) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

// accept serves TLS to whoever connects, and greets them; without a configuration it closes connections.
func accept(t *testing.T, config *tls.Config) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if config == nil {
				_ = conn.Close()
				continue
			}
			go func() {
				defer conn.Close()
				over := tls.Server(conn, config)
				_, _ = over.Write([]byte{0}) // as etcd begins with its settings
				_, _ = io.Copy(io.Discard, over)
			}()
		}
	}()
	return l.Addr().String()
}
