// Package pkitest creates keys and certificates for tests.
package pkitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Pair is a certificate and its key.
type Pair struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// Issue creates a certificate from a template, signed by another or, if that is nil, by itself. The default serial
// number is 1; the default validity is an hour before and after now.
func Issue(t testing.TB, template x509.Certificate, by *Pair) *Pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if template.SerialNumber == nil {
		template.SerialNumber = big.NewInt(1)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = template.NotAfter.Add(-2 * time.Hour)
	}
	if by == nil {
		by = &Pair{&template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, by.Cert, key.Public(), by.Key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Pair{cert, key}
}

// Authority returns the template of an authority.
func Authority(name string) x509.Certificate {
	return x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
}

// Server creates a certificate for names and addresses that is its own authority, and also valid for clients.
func Server(t testing.TB, hosts ...string) *Pair {
	t.Helper()
	template := Authority(hosts[0])
	template.KeyUsage |= x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	return Issue(t, template, nil)
}

// TLS returns the pair for crypto/tls.
func (p *Pair) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{p.Cert.Raw}, PrivateKey: p.Key, Leaf: p.Cert}
}

// PEM returns the certificate.
func (p *Pair) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Cert.Raw})
}

// Write writes the files "cert" and "key" into a directory.
func (p *Pair) Write(t testing.TB, dir string) (cert, key string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(p.Key)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	for file, data := range map[string][]byte{cert: p.PEM(), key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
