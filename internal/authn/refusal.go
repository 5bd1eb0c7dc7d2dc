package authn

import (
	"crypto/x509"
	"errors"
	"net/http"
	"strings"

	"github.com/kanzen-io/kanzen/internal/authn/serviceaccount"
)

// Refusal says of whom the credentials of a refused request claim to be, as far as that is public, and classifies what is wrong
// with them in one word. The reason is empty if there are no credentials. A claim proves nothing.
func Refusal(r *http.Request, err error) (name, reason string) {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	cert := r.TLS != nil && len(r.TLS.PeerCertificates) > 0
	if cert {
		name = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return name, "CertificateExpired"
	case errors.As(err, &unknown):
		return name, "CertificateOfUnknownAuthority"
	case errors.As(err, &invalid):
		return name, "CertificateInvalid"
	case errors.Is(err, serviceaccount.ErrExpired):
		return "", "TokenExpired"
	case strings.TrimSpace(r.Header.Get("Authorization")) != "":
		return "", "TokenInvalid"
	case cert:
		return name, "CertificateInvalid"
	}
	return "", ""
}
