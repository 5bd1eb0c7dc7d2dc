package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strconv"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Canceled is the reason of a call that this server has given up, as when its client has: it says nothing of the other server.
const Canceled = "Canceled"

// Reason classifies why a call of another server failed, in one word that quotes nothing of what was sent or answered: HTTP500
// for an answer with that code.
func Reason(err error) string {
	var (
		invalid x509.CertificateInvalidError
		name    x509.HostnameError
		unknown x509.UnknownAuthorityError
		verify  *tls.CertificateVerificationError
		alert   tls.AlertError
		header  tls.RecordHeaderError
		host    *net.DNSError
		answer  *refusal
		network net.Error
	)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "Timeout"
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.As(err, &invalid):
		if invalid.Reason == x509.Expired {
			return "CertificateExpired"
		}
		return "CertificateInvalid"
	case errors.As(err, &name):
		return "CertificateForAnotherName"
	case errors.As(err, &unknown):
		return "CertificateOfUnknownAuthority"
	case errors.As(err, &verify):
		return "CertificateInvalid"
	case errors.As(err, &alert), errors.As(err, &header):
		return "TLSFailed"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "ConnectionRefused"
	case errors.As(err, &host):
		return "UnknownHost"
	case errors.As(err, &answer):
		return "HTTP" + strconv.Itoa(int(answer.ErrStatus.Code))
	case apierrors.IsNotFound(err):
		return "NoService"
	case apierrors.IsServiceUnavailable(err):
		return "NoEndpoints"
	case errors.As(err, &network) && network.Timeout():
		return "Timeout"
	case errors.As(err, &network):
		return "ConnectionFailed"
	}
	return "InvalidResponse"
}
