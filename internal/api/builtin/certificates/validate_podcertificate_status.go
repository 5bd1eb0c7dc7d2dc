package certificates

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// outcomes are the conditions that end a request. It has one of them at most, and no others.
var outcomes = []string{
	certificatesv1beta1.PodCertificateRequestConditionTypeIssued,
	certificatesv1beta1.PodCertificateRequestConditionTypeDenied,
	certificatesv1beta1.PodCertificateRequestConditionTypeFailed,
}

// podCertificateStatus validates the only change that a status allows: from no outcome to one.
func podCertificateStatus(r, old *certificatesv1beta1.PodCertificateRequest, now time.Time) field.ErrorList {
	if errs := rules.ObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta); len(errs) > 0 {
		return errs
	}
	e := rules.At(field.NewPath("status"))
	outcomeConditions(r.Status.Conditions, e.Field("conditions"))
	if len(e.List()) > 0 {
		return e.List()
	}
	became := outcome(r)
	switch {
	case outcome(old) != "":
		unchanged(&r.Status, &old.Status, "immutable after PodCertificateRequest is issued, denied, or failed", e)
	case became == certificatesv1beta1.PodCertificateRequestConditionTypeIssued:
		issued(r, now, e)
	case became != "":
		only := certificatesv1beta1.PodCertificateRequestStatus{Conditions: r.Status.Conditions}
		unchanged(&r.Status, &only, "non-condition status fields must be empty when denying or failing the PodCertificateRequest", e)
	default:
		unchanged(&r.Status, &old.Status, `status is immutable unless transitioning to "Issued", "Denied", or "Failed"`, e)
	}
	return e.List()
}

func outcomeConditions(list []metav1.Condition, e rules.Errors) {
	n := 0
	for i, c := range list {
		at := e.Field(fmt.Sprintf("[%d]", i)) // and not an Item: kube-apiserver's paths have conditions.[0]
		if !slices.Contains(outcomes, c.Type) {
			at.AddError(field.NotSupported(at.Path().Child("type"), c.Type, outcomes))
			continue
		}
		if n++; n > 1 {
			at.Field("type").Invalid(c.Type, `there may be at most one condition with type "Issued", "Denied", or "Failed"`)
		}
		if c.Status != metav1.ConditionTrue {
			at.AddError(field.NotSupported(at.Path().Child("status"), c.Status, []metav1.ConditionStatus{metav1.ConditionTrue}))
		}
	}
	e.Add(v1validation.ValidateConditions(list, e.Path()))
}

// outcome returns the type of the condition that has ended a request, "" if none has.
func outcome(r *certificatesv1beta1.PodCertificateRequest) string {
	for _, c := range r.Status.Conditions {
		if c.Status == metav1.ConditionTrue && slices.Contains(outcomes, c.Type) {
			return c.Type
		}
	}
	return ""
}

func unchanged(s, want *certificatesv1beta1.PodCertificateRequestStatus, detail string, e rules.Errors) {
	if !apiequality.Semantic.DeepEqual(s, want) {
		e.Invalid(field.OmitValueType{}, detail)
	}
}

// issued validates what a signer has issued: a certificate for the requested key, its times, and further certificates.
func issued(r *certificatesv1beta1.PodCertificateRequest, now time.Time, e rules.Errors) {
	const longest = 100 << 10
	chain := r.Status.CertificateChain
	at := e.Field("certificateChain")
	if len(chain) > longest {
		at.TooLong(longest)
		return
	}
	leaf, rest, err := nextCertificate([]byte(chain))
	switch {
	case err != nil:
		at.Invalid(chain, err.Error())
		return
	case leaf == nil:
		at.Invalid(chain, "issued certificate chain must contain at least one certificate")
		return
	}
	leafNames(leaf, at)
	if key := keyOf(&r.Spec, e.Elsewhere(field.NewPath("spec"))); key == nil {
		return
	} else if !key.Equal(leaf.PublicKey) {
		at.Invalid(chain, "leaf certificate was not issued to the requested public key")
		return
	}
	issuedTimes(r, leaf, now, e)
	for leaf != nil && len(e.List()) == 0 {
		if leaf, rest, err = nextCertificate(rest); err != nil {
			at.Invalid(chain, err.Error())
		}
	}
}

// nextCertificate reads the next certificate of a chain in PEM; nil: there are no more.
func nextCertificate(chain []byte) (cert *x509.Certificate, rest []byte, err error) {
	block, rest := pem.Decode(chain)
	if block == nil {
		return nil, rest, nil
	}
	if block.Type != "CERTIFICATE" {
		return nil, rest, errors.New("issued certificate chain must consist entirely of CERTIFICATE PEM blocks")
	}
	if cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, rest, errors.New("issued certificate chain has a certificate that does not parse as valid X.509")
	}
	return cert, rest, nil
}

// leafNames validates names that the parser accepts although clients may not.
func leafNames(leaf *x509.Certificate, e rules.Errors) {
	for _, name := range leaf.DNSNames {
		if slices.Contains(strings.Split(name, "."), "") {
			e.Invalid(name, "leaf certificate should not contain a DNSName that is empty or has an empty label")
		}
	}
	for _, address := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(address); err != nil {
			e.Invalid(address, "leaf certificate should not contain invalid EmailAddress")
		}
	}
}

type publicKey interface{ Equal(crypto.PublicKey) bool }

// keyOf returns the key for which a certificate was requested; nil: it cannot be read any more.
func keyOf(s *certificatesv1beta1.PodCertificateRequestSpec, e rules.Errors) publicKey {
	var key crypto.PublicKey
	if len(s.StubPKCS10Request) > 0 {
		r, err := x509.ParseCertificateRequest(s.StubPKCS10Request)
		if err != nil {
			e.Field("stubPKCS10Request").Invalid(field.OmitValueType{}, "must be a valid PKCS#10 CSR")
			return nil
		}
		key = r.PublicKey
	} else {
		var err error
		//lint:ignore SA1019 a stored request may have the field
		if key, err = x509.ParsePKIXPublicKey(s.PKIXPublicKey); err != nil {
			e.Field("pkixPublicKey").Invalid(field.OmitValueType{}, "must be a valid PKIX-serialized public key")
			return nil
		}
	}
	return key.(publicKey) // creation has refused all keys that are not
}

// issuedTimes compares the times of a status with those of the certificate, and both with what was asked for.
func issuedTimes(r *certificatesv1beta1.PodCertificateRequest, leaf *x509.Certificate, now time.Time, e rules.Errors) {
	s := &r.Status
	for _, t := range []struct {
		name string
		at   *metav1.Time
	}{{"notBefore", s.NotBefore}, {"notAfter", s.NotAfter}, {"beginRefreshAt", s.BeginRefreshAt}} {
		if t.at == nil {
			e.Field(t.name).Required("must be present and consistent with the issued certificate")
		}
	}
	if len(e.List()) > 0 {
		return
	}
	lifetime, most := leaf.NotAfter.Sub(leaf.NotBefore), *r.Spec.MaxExpirationSeconds
	switch {
	case !s.NotBefore.Time.Equal(leaf.NotBefore):
		e.Field("notBefore").Invalid(s.NotBefore.Time, "must be set to the NotBefore time encoded in the leaf certificate")
	case s.NotBefore.Sub(now).Abs() >= 5*time.Minute:
		e.Field("notBefore").Invalid(s.NotBefore.Time, "must be set to within 5 minutes of kube-apiserver's current time")
	case !s.NotAfter.Time.Equal(leaf.NotAfter):
		e.Field("notAfter").Invalid(s.NotAfter.Time, "must be set to the NotAfter time encoded in the leaf certificate")
	case lifetime < time.Hour:
		e.Field("certificateChain").Invalid(lifetime, "leaf certificate lifetime must be >= 1 hour")
	case lifetime > time.Duration(most)*time.Second:
		e.Field("certificateChain").Invalid(lifetime, fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%d)", most))
	case s.BeginRefreshAt.Sub(s.NotBefore.Time) < 10*time.Minute:
		e.Field("beginRefreshAt").Invalid(s.BeginRefreshAt.Time, "must be at least 10 minutes after status.notBefore")
	case s.NotAfter.Sub(s.BeginRefreshAt.Time) < 10*time.Minute:
		e.Field("beginRefreshAt").Invalid(s.BeginRefreshAt.Time, "must be at least 10 minutes before status.notAfter")
	}
}
