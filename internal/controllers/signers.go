package controllers

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
)

// This file has the rules of Kubernetes' signers: which requests they sign, and
// for which users.

// signers are Kubernetes' signers, each with a check of requests.
var signers = map[string]func(r *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error{
	certificatesv1.KubeAPIServerClientSignerName:        apiServerClient,
	certificatesv1.KubeAPIServerClientKubeletSignerName: kubeletClient,
	certificatesv1.KubeletServingSignerName:             kubeletServing,
	"kubernetes.io/legacy-unknown":                      func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error { return nil },
}

func apiServerClient(_ *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	for _, u := range usages {
		if u != certificatesv1.UsageDigitalSignature && u != certificatesv1.UsageKeyEncipherment && u != certificatesv1.UsageClientAuth {
			return fmt.Errorf("invalid usage for client certificate: %s", u)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}

// Messages that clients know.
var (
	//lint:ignore ST1005 as kube-controller-manager says it
	errEmail = errors.New("Email subjectAltNames are not allowed")
	//lint:ignore ST1005 as kube-controller-manager says it
	errNodeName = errors.New("subject common name does not begin with system:node:")
)

// node checks the common rules of all kubelet certificates.
func node(r *x509.CertificateRequest, usages []certificatesv1.KeyUsage, role certificatesv1.KeyUsage) error {
	switch {
	case !slices.Equal(r.Subject.Organization, []string{user.NodesGroup}):
		return errors.New("subject organization is not system:nodes")
	case len(r.EmailAddresses) > 0:
		return errEmail
	case len(r.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	case !strings.HasPrefix(r.Subject.CommonName, "system:node:"):
		return errNodeName
	}
	required := []string{string(certificatesv1.UsageDigitalSignature), string(certificatesv1.UsageKeyEncipherment), string(role)}
	slices.Sort(required)
	have := map[string]bool{}
	for _, u := range usages {
		have[string(u)] = true
	}
	delete(have, string(certificatesv1.UsageKeyEncipherment)) // only RSA keys need it
	got := append(slices.Collect(maps.Keys(have)), string(certificatesv1.UsageKeyEncipherment))
	slices.Sort(got)
	if !slices.Equal(got, required) {
		return fmt.Errorf("usages did not match %v", required)
	}
	return nil
}

func kubeletClient(r *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case len(r.DNSNames) > 0:
		return errors.New("DNS subjectAltNames are not allowed")
	case len(r.IPAddresses) > 0:
		return errors.New("IP subjectAltNames are not allowed")
	}
	return node(r, usages, certificatesv1.UsageClientAuth)
}

func kubeletServing(r *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	if len(r.DNSNames) == 0 && len(r.IPAddresses) == 0 {
		return errors.New("DNS or IP subjectAltName is required")
	}
	return node(r, usages, certificatesv1.UsageServerAuth)
}

// basic and extended map the names of usages in requests to usages of
// certificates.
var (
	basicUsages = map[certificatesv1.KeyUsage]x509.KeyUsage{
		certificatesv1.UsageSigning: x509.KeyUsageDigitalSignature, certificatesv1.UsageDigitalSignature: x509.KeyUsageDigitalSignature,
		certificatesv1.UsageContentCommitment: x509.KeyUsageContentCommitment, certificatesv1.UsageKeyEncipherment: x509.KeyUsageKeyEncipherment,
		certificatesv1.UsageKeyAgreement: x509.KeyUsageKeyAgreement, certificatesv1.UsageDataEncipherment: x509.KeyUsageDataEncipherment,
		certificatesv1.UsageCertSign: x509.KeyUsageCertSign, certificatesv1.UsageCRLSign: x509.KeyUsageCRLSign,
		certificatesv1.UsageEncipherOnly: x509.KeyUsageEncipherOnly, certificatesv1.UsageDecipherOnly: x509.KeyUsageDecipherOnly,
	}
	extendedUsages = map[certificatesv1.KeyUsage]x509.ExtKeyUsage{
		certificatesv1.UsageAny: x509.ExtKeyUsageAny, certificatesv1.UsageServerAuth: x509.ExtKeyUsageServerAuth,
		certificatesv1.UsageClientAuth: x509.ExtKeyUsageClientAuth, certificatesv1.UsageCodeSigning: x509.ExtKeyUsageCodeSigning,
		certificatesv1.UsageEmailProtection: x509.ExtKeyUsageEmailProtection, certificatesv1.UsageSMIME: x509.ExtKeyUsageEmailProtection,
		certificatesv1.UsageIPsecEndSystem: x509.ExtKeyUsageIPSECEndSystem, certificatesv1.UsageIPsecTunnel: x509.ExtKeyUsageIPSECTunnel,
		certificatesv1.UsageIPsecUser: x509.ExtKeyUsageIPSECUser, certificatesv1.UsageTimestamping: x509.ExtKeyUsageTimeStamping,
		certificatesv1.UsageOCSPSigning: x509.ExtKeyUsageOCSPSigning, certificatesv1.UsageMicrosoftSGC: x509.ExtKeyUsageMicrosoftServerGatedCrypto,
		certificatesv1.UsageNetscapeSGC: x509.ExtKeyUsageNetscapeServerGatedCrypto,
	}
)

// keyUsages returns the usages that a request names.
func keyUsages(names []certificatesv1.KeyUsage) (basic x509.KeyUsage, extended []x509.ExtKeyUsage, err error) {
	for _, name := range names {
		if u, ok := basicUsages[name]; ok {
			basic |= u
		} else if u, ok := extendedUsages[name]; ok {
			if !slices.Contains(extended, u) {
				extended = append(extended, u)
			}
		} else {
			return 0, nil, fmt.Errorf("unrecognized usage values: %q", []certificatesv1.KeyUsage{name})
		}
	}
	slices.Sort(extended)
	return basic, extended, nil
}

// pemBytes returns the bytes of the first PEM block.
func pemBytes(data []byte) []byte {
	if block, _ := pem.Decode(data); block != nil {
		return block.Bytes
	}
	return nil
}

// allowed checks whether the user of a request may have it approved.
func (w *csrWorker) allowed(ctx context.Context, r *certificatesv1.CertificateSigningRequest, subresource string) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range r.Spec.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	reviews := inprocess.Target{Resource: authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews")}
	answer, err := w.client.Create(ctx, reviews, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: r.Spec.Username, UID: r.Spec.UID, Groups: r.Spec.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: certificatesv1.GroupName, Version: "*", Resource: "certificatesigningrequests", Subresource: subresource, Verb: "create",
		},
	}})
	if err != nil {
		return false, err
	}
	review, ok := answer.(*authorizationv1.SubjectAccessReview)
	if !ok {
		return false, fmt.Errorf("a review was answered with a %T", answer)
	}
	return review.Status.Allowed, nil
}
