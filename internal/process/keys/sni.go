package keys

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"strings"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// sniCertificate is a serving certificate for some names; by default for those in the certificate.
type sniCertificate struct {
	file  *pki.CertFile
	names []string
}

// loadSNI parses --tls-sni-cert-key: "cert,key" or "cert,key:name,name".
func loadSNI(flags []string, clk clock.PassiveClock, log *slog.Logger) ([]sniCertificate, error) {
	var out []sniCertificate
	for _, f := range flags {
		files, names, _ := strings.Cut(f, ":")
		cert, key, ok := strings.Cut(files, ",")
		if !ok || cert == "" || key == "" {
			return nil, fmt.Errorf("--tls-sni-cert-key: expected comma separated certificate and key file paths, got %q", f)
		}
		c := sniCertificate{}
		var err error
		if c.file, err = pki.NewCertFile(cert, key, clk, log); err != nil {
			return nil, fmt.Errorf("--tls-sni-cert-key: %w", err)
		}
		for _, n := range strings.Split(names, ",") {
			if n = strings.ToLower(strings.TrimSpace(n)); n != "" {
				c.names = append(c.names, n)
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// Certificate returns the certificate for the server name that the client sends, or the default one. Certificates, and
// with them the names, are reloaded when their files change.
func (k *Keys) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if len(k.sni) == 0 {
		return k.Serving.GetCertificate(hello)
	}
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	if name == "" {
		return k.Serving.GetCertificate(hello)
	}
	// Exact names precede wildcards, and the first certificate precedes later ones.
	for _, match := range []func(pattern string) bool{
		func(p string) bool { return p == name },
		func(p string) bool {
			_, domain, ok := strings.Cut(name, ".")
			return ok && p == "*."+domain
		},
	} {
		for _, c := range k.sni {
			cert, err := c.file.GetCertificate(hello)
			if err != nil {
				continue
			}
			for _, p := range c.patterns(cert) {
				if match(p) {
					return cert, nil
				}
			}
		}
	}
	return k.Serving.GetCertificate(hello)
}

// patterns returns the names of a certificate.
func (c *sniCertificate) patterns(cert *tls.Certificate) []string {
	if len(c.names) > 0 {
		return c.names
	}
	leaf := cert.Leaf
	if leaf == nil {
		var err error
		if leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
			return nil
		}
	}
	var out []string
	for _, n := range leaf.DNSNames {
		out = append(out, strings.ToLower(n))
	}
	if len(out) == 0 && leaf.Subject.CommonName != "" {
		out = append(out, strings.ToLower(leaf.Subject.CommonName))
	}
	return out
}
