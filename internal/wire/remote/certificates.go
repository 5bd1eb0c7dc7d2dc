package remote

import (
	"crypto/x509"
	"net/http"
	"strings"
)

// Certificates reports deprecated certificates of servers: those that name no host outside of their common name, and those
// signed with SHA-1.
type Certificates struct{ MissingNames, InsecureSignature func() }

// Of returns a transport that reports the certificates of answers and failures.
func (c *Certificates) Of(next http.RoundTripper) http.RoundTripper { return reporting{c, next} }

type reporting struct {
	certificates *Certificates
	next         http.RoundTripper
}

// RoundTrip is part of http.RoundTripper.
func (t reporting) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	var peer []*x509.Certificate
	if err == nil && resp.TLS != nil {
		peer = resp.TLS.PeerCertificates
	}
	t.certificates.Saw(peer, err)
	return resp, err
}

// Saw reports the certificates of a server that has answered, or the failure to get an answer.
func (c *Certificates) Saw(peer []*x509.Certificate, err error) {
	switch {
	case err != nil:
		text := err.Error()
		if strings.Contains(text, "x509: certificate relies on legacy Common Name field") {
			c.MissingNames()
		}
		if strings.Contains(text, "insecure algorithm SHA1") {
			c.InsecureSignature()
		}
	case len(peer) > 0:
		cert := peer[0]
		if len(cert.DNSNames)+len(cert.IPAddresses)+len(cert.EmailAddresses)+len(cert.URIs) == 0 {
			c.MissingNames()
		}
		if cert.SignatureAlgorithm == x509.SHA1WithRSA || cert.SignatureAlgorithm == x509.ECDSAWithSHA1 {
			c.InsecureSignature()
		}
	}
}
