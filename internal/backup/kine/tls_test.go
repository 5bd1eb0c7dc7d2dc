package kine_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"database/sql"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/backup/kine"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority writes dir/NAME.crt and dir/NAME.key.
func newAuthority(t *testing.T, dir, name string) *authority {
	a := &authority{t: t, dir: dir}
	a.cert, a.key = a.issue(name, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue writes a certificate and its key. An authority signs its own.
func (a *authority) issue(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(a.dir, name+file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// TestPostgresOverTLS reads kine's table from a PostgreSQL that takes only connections over TLS from clients with a certificate.
func TestPostgresOverTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := newAuthority(t, dir, "authority")
	newAuthority(t, dir, "other")
	a.issue("kine", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	a.issue("server", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	at := startPostgres(t, dir)
	if at == "" {
		t.Skip("there is no PostgreSQL")
	}
	with := func(change func(url.Values)) string {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		change(q)
		u.RawQuery = q.Encode()
		return u.String()
	}
	fillKine(t, at)
	m, err := snapshot.Bring(t.Context(), kine.Saver(at), filepath.Join(t.TempDir(), "data"), "pebble", nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.Revision != 3 {
		t.Errorf("what was brought: %+v", *m)
	}
	for name, c := range map[string]struct{ at, err string }{
		"not over TLS":        {with(func(q url.Values) { q.Set("sslmode", "disable") }), "pg_hba.conf"},
		"without certificate": {with(func(q url.Values) { q.Del("sslcert"); q.Del("sslkey") }), "client certificate"},
		"another authority":   {with(func(q url.Values) { q.Set("sslrootcert", filepath.Join(dir, "other.crt")) }), "unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := snapshot.Bring(t.Context(), kine.Saver(c.at), filepath.Join(t.TempDir(), "data"), "pebble", nil)
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v, want %q", err, c.err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error has the password: %v", err)
			}
		})
	}
}

// overTLS are the arguments of a PostgreSQL with its files in dir, which takes connections only over TLS.
func overTLS(t *testing.T, dir, certificates string) []string {
	t.Helper()
	hosts := filepath.Join(dir, "data", "pg_hba.conf")
	if err := os.WriteFile(hosts, []byte("hostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"server.crt", "server.key", "authority.crt"} {
		data, err := os.ReadFile(filepath.Join(certificates, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
		asPostgres(t, filepath.Join(dir, file)) // which owns it
	}
	return []string{"-c", "ssl=on", "-c", "ssl_cert_file=" + filepath.Join(dir, "server.crt"), "-c", "ssl_key_file=" + filepath.Join(dir, "server.key"),
		"-c", "ssl_ca_file=" + filepath.Join(dir, "authority.crt")}
}

// clientTLS is the query of a client's URL.
func clientTLS(certificates string) url.Values {
	return url.Values{"sslmode": {"verify-full"}, "sslrootcert": {filepath.Join(certificates, "authority.crt")},
		"sslcert": {filepath.Join(certificates, "kine.crt")}, "sslkey": {filepath.Join(certificates, "kine.key")}}
}

// fillKine makes kine's table with three revisions of a key.
func fillKine(t *testing.T, at string) {
	t.Helper()
	db, err := sql.Open("postgres", at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	statements := []string{`CREATE TABLE kine (id BIGSERIAL PRIMARY KEY, name VARCHAR(630), created INTEGER, deleted INTEGER, create_revision BIGINT,
		prev_revision BIGINT, lease INTEGER, value BYTEA, old_value BYTEA)`}
	for n := range 3 {
		statements = append(statements, fmt.Sprintf(`INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease, value)
			VALUES ('/registry/configmaps/default/a', %d, 0, %d, %d, 0, 'value')`, map[bool]int{true: 1}[n == 0], min(n, 1), n))
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}
