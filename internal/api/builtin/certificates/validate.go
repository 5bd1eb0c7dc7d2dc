package certificates

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// legacySigner was the default signer in earlier versions.
const legacySigner = "kubernetes.io/legacy-unknown"

var usages = []certificatesv1.KeyUsage{
	certificatesv1.UsageAny, certificatesv1.UsageCertSign, certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning,
	certificatesv1.UsageContentCommitment, certificatesv1.UsageCRLSign, certificatesv1.UsageDataEncipherment,
	certificatesv1.UsageDecipherOnly, certificatesv1.UsageDigitalSignature, certificatesv1.UsageEmailProtection,
	certificatesv1.UsageEncipherOnly, certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel,
	certificatesv1.UsageIPsecUser, certificatesv1.UsageKeyAgreement, certificatesv1.UsageKeyEncipherment,
	certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC, certificatesv1.UsageOCSPSigning,
	certificatesv1.UsageSMIME, certificatesv1.UsageServerAuth, certificatesv1.UsageSigning, certificatesv1.UsageTimestamping,
}

// final are the conditions that are never removed, and always true.
var final = []certificatesv1.RequestConditionType{
	certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed,
}

// options say what a write may change, and which rules are relaxed for stored values.
type options struct {
	maySetApproval    bool
	maySetCertificate bool

	allowBothDecisions       bool
	allowLegacySigner        bool
	allowDuplicateConditions bool
	allowEmptyCondition      bool
	allowAnyCertificate      bool
	allowDuplicateUsages     bool
	allowUnknownUsages       bool
}

func optionsFor(r, old *certificatesv1.CertificateSigningRequest) options {
	var o options
	var types []certificatesv1.RequestConditionType
	for _, c := range old.Status.Conditions {
		o.allowDuplicateConditions = o.allowDuplicateConditions || slices.Contains(types, c.Type)
		types = append(types, c.Type)
	}
	o.allowEmptyCondition = slices.Contains(types, "")
	o.allowBothDecisions = slices.Contains(types, certificatesv1.CertificateApproved) && slices.Contains(types, certificatesv1.CertificateDenied)
	o.allowLegacySigner = old.Spec.SignerName == legacySigner
	o.allowAnyCertificate = bytes.Equal(r.Status.Certificate, old.Status.Certificate) || checkCertificate(old.Status.Certificate) != nil
	for i, u := range old.Spec.Usages {
		o.allowUnknownUsages = o.allowUnknownUsages || !slices.Contains(usages, u)
		o.allowDuplicateUsages = o.allowDuplicateUsages || slices.Contains(old.Spec.Usages[:i], u)
	}
	return o
}

func validate(_ context.Context, r *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return signingRequest(r, options{})
}

func validateUpdate(_ context.Context, r, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return update(r, old, optionsFor(r, old))
}

func validateStatus(_ context.Context, r, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	o := optionsFor(r, old)
	o.maySetCertificate = true
	return update(r, old, o)
}

func validateApproval(_ context.Context, r, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	o := optionsFor(r, old)
	o.maySetApproval = true
	return update(r, old, o)
}

func signingRequest(r *certificatesv1.CertificateSigningRequest, o options) field.ErrorList {
	s := &r.Spec
	e := rules.At(field.NewPath("spec"))
	anyName := func(string, bool) []string { return nil }
	e.Add(rules.ObjectMeta(&r.ObjectMeta, false, anyName))
	if err := checkRequest(s.Request); err != nil {
		e.Field("request").Invalid(s.Request, err.Error())
	}
	if len(s.Usages) == 0 {
		e.Field("usages").Required("")
	}
	for i, u := range s.Usages {
		at := e.Field("usages").Item(i)
		if !o.allowUnknownUsages && !slices.Contains(usages, u) {
			at.AddError(field.NotSupported(at.Path(), u, usages))
		}
		if !o.allowDuplicateUsages && slices.Contains(s.Usages[:i], u) {
			at.Duplicate(u)
		}
	}
	if s.SignerName == legacySigner && !o.allowLegacySigner {
		e.Field("signerName").Invalid(s.SignerName, "is not for this version")
	} else {
		rules.SignerName(s.SignerName, e.Field("signerName"))
	}
	if p := s.ExpirationSeconds; p != nil && *p < 600 {
		e.Field("expirationSeconds").Invalid(*p, "may not specify a duration less than 600 seconds (10 minutes)")
	}
	status := e.Elsewhere(field.NewPath("status"))
	conditions(r.Status.Conditions, o, status.Field("conditions"))
	if !o.allowAnyCertificate {
		if err := checkCertificate(r.Status.Certificate); err != nil {
			status.Field("certificate").Invalid("<certificate data>", err.Error())
		}
	}
	return e.List()
}

func conditions(list []certificatesv1.CertificateSigningRequestCondition, o options, e rules.Errors) {
	var seen []certificatesv1.RequestConditionType
	for i, c := range list {
		at := e.Item(i)
		if c.Type == "" && !o.allowEmptyCondition {
			at.Field("type").Required("")
		}
		statuses := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
		if slices.Contains(final, c.Type) {
			statuses = []corev1.ConditionStatus{corev1.ConditionTrue}
		}
		rules.RequiredOneOf(at, "status", c.Status, statuses)
		opposite := map[certificatesv1.RequestConditionType]certificatesv1.RequestConditionType{
			certificatesv1.CertificateApproved: certificatesv1.CertificateDenied,
			certificatesv1.CertificateDenied:   certificatesv1.CertificateApproved,
		}[c.Type]
		if opposite != "" && slices.Contains(seen, opposite) && !o.allowBothDecisions {
			e.Invalid(c.Type, "Approved and Denied conditions are mutually exclusive")
		}
		if slices.Contains(seen, c.Type) && !o.allowDuplicateConditions {
			at.Field("type").Duplicate(c.Type)
		}
		seen = append(seen, c.Type)
	}
}

func update(r, old *certificatesv1.CertificateSigningRequest, o options) field.ErrorList {
	e := rules.At(field.NewPath("status"))
	e.Add(signingRequest(r, o))
	e.Add(rules.ObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta))
	for _, t := range final {
		is, was := ofType(r, t), ofType(old, t)
		switch decision := t != certificatesv1.CertificateFailed; {
		case len(is) < len(was):
			e.Field("conditions").Forbidden(fmt.Sprintf("cannot take back %s", t))
		case decision && !o.maySetApproval && len(is) > len(was):
			e.Field("conditions").Forbidden(fmt.Sprintf("cannot add %s here", t))
		case decision && !o.maySetApproval && !apiequality.Semantic.DeepEqual(is, was):
			e.Field("conditions").Forbidden(fmt.Sprintf("cannot change %s here", t))
		}
	}
	if !bytes.Equal(r.Status.Certificate, old.Status.Certificate) {
		switch {
		case !o.maySetCertificate:
			e.Field("certificate").Forbidden("cannot be set here")
		case len(old.Status.Certificate) > 0:
			e.Field("certificate").Forbidden("cannot be changed")
		}
	}
	return e.List()
}

func ofType(r *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) []certificatesv1.CertificateSigningRequestCondition {
	var out []certificatesv1.CertificateSigningRequestCondition
	for _, c := range r.Status.Conditions {
		if c.Type == t {
			out = append(out, c)
		}
	}
	return out
}

// checkRequest checks that data is a PKCS #10 request with a valid signature.
func checkRequest(data []byte) error {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	return r.CheckSignature()
}

// checkCertificate checks that data is empty, or contains PEM blocks of certificates.
func checkCertificate(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	found := false
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			return errors.New("must be PEM blocks of type CERTIFICATE, without headers")
		}
		list, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return errors.New("has a PEM block without a certificate")
		}
		data, found = rest, true
	}
	if !found {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}
