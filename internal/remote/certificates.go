package remote

import (
	"crypto/x509"
	"net/http"
	"strings"
)

// Certificates is a transport that reports deprecated certificates of servers: those that name no host outside of their
// common name, and those signed with SHA-1.
type Certificates struct {
	Next                            http.RoundTripper
	MissingNames, InsecureSignature func()
}

// RoundTrip is part of http.RoundTripper.
func (c *Certificates) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.Next.RoundTrip(r)
	switch {
	case err != nil:
		text := err.Error()
		if strings.Contains(text, "x509: certificate relies on legacy Common Name field") {
			c.MissingNames()
		}
		if strings.Contains(text, "insecure algorithm SHA1") {
			c.InsecureSignature()
		}
	case resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0:
		cert := resp.TLS.PeerCertificates[0]
		if len(cert.DNSNames)+len(cert.IPAddresses)+len(cert.EmailAddresses)+len(cert.URIs) == 0 {
			c.MissingNames()
		}
		if cert.SignatureAlgorithm == x509.SHA1WithRSA || cert.SignatureAlgorithm == x509.ECDSAWithSHA1 {
			c.InsecureSignature()
		}
	}
	return resp, err
}
