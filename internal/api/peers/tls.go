package peers

import (
	"crypto/tls"
	"crypto/x509"
	"errors"

	"github.com/kanzen-io/kanzen/internal/wire/frontproxy"
)

// everywhere is the name in the certificate of every API server of a cluster, whatever its address.
const everywhere = "kubernetes.default.svc"

// TLS returns the settings of connections to other servers. The authorities are those of the moment.
func TLS(authorities func() *x509.CertPool, certificate frontproxy.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: everywhere, GetClientCertificate: certificate,
		// VerifyConnection does what is skipped, by the newest authorities.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errors.New("the server has no certificate")
			}
			options := x509.VerifyOptions{Roots: authorities(), DNSName: everywhere, Intermediates: x509.NewCertPool()}
			for _, c := range s.PeerCertificates[1:] {
				options.Intermediates.AddCert(c)
			}
			_, err := s.PeerCertificates[0].Verify(options)
			return err
		},
	}
}
