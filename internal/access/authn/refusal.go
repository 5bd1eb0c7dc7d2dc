package authn

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"

	gooidc "github.com/coreos/go-oidc/v3/oidc"

	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
)

// Refusal says of whom the credentials of a refused request claim to be, as far as that is public, and classifies what is wrong
// with them in one word. The reason is empty if there are no credentials. A claim proves nothing: anybody can make a certificate
// with any name, which may as well be over.
func Refusal(r *http.Request, err error) (name, reason string) {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return r.TLS.PeerCertificates[0].Subject.CommonName, refusedCertificate(err)
	}
	var away net.Error
	var over *gooidc.TokenExpiredError
	switch {
	case err == nil && r.Header.Get("Authorization") == "":
		return "", ""
	case errors.Is(err, serviceaccount.ErrExpired), errors.Is(err, errBootstrapExpired), errors.As(err, &over):
		return "", "TokenExpired"
	case errors.Is(err, serviceaccount.ErrMarkedInvalid):
		return "", "TokenMarkedInvalid"
	case errors.Is(err, context.Canceled):
		return "", "" // the client has not waited for an answer
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &away):
		return "", "TokenNotChecked"
	}
	return "", "TokenInvalid"
}

func refusedCertificate(err error) (reason string) {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "CertificateExpired"
	case !errors.As(err, &invalid) && errors.As(err, &unknown): // the front proxy's authority does not know most clients
		return "CertificateOfUnknownAuthority"
	}
	return "CertificateInvalid"
}
