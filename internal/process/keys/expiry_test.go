package keys

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

// TestFaultsOfCertificates says what is wrong with certificates, in what they are used for.
func TestFaultsOfCertificates(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	valid := func(from, until time.Duration, usages ...x509.ExtKeyUsage) *x509.Certificate {
		return &x509.Certificate{NotBefore: now.Add(from), NotAfter: now.Add(until), ExtKeyUsage: usages}
	}
	const hour, year = time.Hour, 365 * 24 * time.Hour
	server, client := x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth
	for _, c := range []struct {
		name string
		cert *x509.Certificate
		use  Use
		says string
	}{
		{"good", valid(-hour, year, server), AsServer, ""},
		{"good client", valid(-hour, year, client, server), AsClient, ""},
		{"of any use", valid(-hour, year, x509.ExtKeyUsageAny), AsClient, ""},
		{"without a use", valid(-hour, year), AsServer, ""},
		{"expired server", valid(-year, -hour, server), AsServer, "a certificate has expired, and clients refuse it"},
		{"expired client", valid(-year, -hour, client), AsClient, "a certificate has expired, and servers refuse it"},
		{"expired authority", valid(-year, -hour), AsAuthority, "a certificate authority of clients has expired"},
		{"soon", valid(-year, 48*hour, server), AsServer, "a certificate expires soon"},
		{"not yet", valid(hour, year, server), AsServer, "a certificate is not valid yet, and clients refuse it"},
		{"a client's as a server's", valid(-hour, year, client), AsServer, "extended key usage serverAuth"},
		{"a server's as a client's", valid(-hour, year, server), AsClient, "extended key usage clientAuth"},
		{"a client's as an authority", &x509.Certificate{NotAfter: now.Add(year), BasicConstraintsValid: true}, AsAuthority, "is none"},
		{"an old authority", &x509.Certificate{NotAfter: now.Add(year)}, AsAuthority, ""},
		{"an authority", &x509.Certificate{NotAfter: now.Add(year), BasicConstraintsValid: true, IsCA: true}, AsAuthority, ""},
	} {
		says, _ := fault(NamedCertificate{Flag: "--a", Certificate: c.cert, Use: c.use}, now)
		if !strings.Contains(says, c.says) || (says == "") != (c.says == "") {
			t.Errorf("%s: %q, want %q", c.name, says, c.says)
		}
	}
}
