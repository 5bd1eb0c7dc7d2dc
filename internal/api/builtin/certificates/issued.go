package certificates

import (
	"context"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/util/cert"
)

// issuing tells of a certificate that an update issues, once it is stored.
func (d Deps) issuing(_ context.Context, r, old *certificatesv1.CertificateSigningRequest, dryRun bool) (end func(stored bool), err error) {
	return func(stored bool) {
		if stored && !dryRun {
			d.issued(r, old)
		}
	}, nil
}

// issued tells of a certificate that was not there before, if the request asks for a duration.
func (d Deps) issued(r, old *certificatesv1.CertificateSigningRequest) {
	asked := old.Spec.ExpirationSeconds
	if d.Issued == nil || asked == nil || len(old.Status.Certificate) > 0 || len(r.Status.Certificate) == 0 {
		return
	}
	signer := old.Spec.SignerName
	if !strings.HasPrefix(signer, "kubernetes.io/") {
		signer = "other" // there may be any number
	}
	certs, err := cert.ParseCertsPEM(r.Status.Certificate)
	d.Issued(signer, err == nil && honors(certs[0].NotAfter.Sub(certs[0].NotBefore), time.Duration(*asked)*time.Second))
}

// honors reports whether a certificate is valid for as long as was asked for: it may begin somewhat earlier, and differ by a
// twentieth.
func honors(valid, asked time.Duration) bool { return (valid - asked).Abs() < 5*time.Minute+asked/20 }
