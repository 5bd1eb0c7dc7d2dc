package etcd

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
)

// TestStrangers connects to the sockets of an etcd without a certificate, with one of another authority, and without TLS. It learns
// nothing but the server's certificate.
func TestStrangers(t *testing.T) {
	authority := pkitest.Issue(t, pkitest.Authority("etcd"), nil)
	template := func(name string) x509.Certificate {
		c := pkitest.Authority(name)
		c.IsCA, c.KeyUsage = false, x509.KeyUsageDigitalSignature
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
		c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		return c
	}
	dir := t.TempDir()
	cert, key := pkitest.Issue(t, template("member"), authority).Write(t, dir)
	ca, _ := authority.Write(t, t.TempDir())
	listen := &Listen{CA: ca, Cert: cert, Key: key}
	for _, to := range []*[]url.URL{&listen.ClientURLs, &listen.PeerURLs} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		*to = []url.URL{{Scheme: "https", Host: l.Addr().String()}}
		_ = l.Close()
	}
	db, err := OpenEmbedded(t.Context(), Embedded{Dir: t.TempDir(), UnsafeNoFsync: true, Listen: listen})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	other := pkitest.Issue(t, pkitest.Authority("etcd"), nil) // of the same name
	for who, c := range map[string]struct {
		tls  bool
		pair []tls.Certificate
		max  uint16
		in   bool
	}{
		"a member":                  {true, []tls.Certificate{pkitest.Issue(t, template("other"), authority).TLS()}, 0, true},
		"nobody":                    {true, nil, 0, false},
		"signed by itself":          {true, []tls.Certificate{pkitest.Issue(t, template("member"), nil).TLS()}, 0, false},
		"of another authority":      {true, []tls.Certificate{pkitest.Issue(t, template("member"), other).TLS()}, 0, false},
		"the authority in its name": {true, []tls.Certificate{other.TLS()}, 0, false},
		"an old version of TLS":     {true, []tls.Certificate{pkitest.Issue(t, template("other"), authority).TLS()}, tls.VersionTLS11, false},
		"plain":                     {false, nil, 0, false},
	} {
		for where, u := range map[string]url.URL{"clients": listen.ClientURLs[0], "peers": listen.PeerURLs[0]} {
			for _, path := range []string{"/members", "/raft", "/raft/snapshot", "/version", "/health", "/leases", "/metrics", "/downgrade/enabled"} {
				conn, err := net.Dial("tcp", u.Host)
				if err != nil {
					t.Fatal(err)
				}
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
				if c.tls {
					conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, Certificates: c.pair, MaxVersion: c.max, MinVersion: tls.VersionTLS10, NextProtos: []string{"http/1.1"}})
				}
				fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
				status, _ := bufio.NewReader(conn).ReadString('\n')
				more, _ := io.ReadAll(io.LimitReader(conn, 1<<10))
				_ = conn.Close()
				in := status != "" && !strings.Contains(status, "400") // what Go answers to plain HTTP
				if in != c.in {
					t.Errorf("%s at the socket of %s: %s: %q %q", who, where, path, status, more)
				}
			}
		}
	}
}
