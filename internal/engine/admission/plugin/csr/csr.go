// Package csr guards certificate signing requests and trust bundles: it checks which users may
// approve, sign and attest for a signer, and which subjects a certificate may have.
package csr

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// Names of the plugins in --enable-admission-plugins.
const (
	ApprovalName = "CertificateApproval"
	SigningName  = "CertificateSigning"
	AttestName   = "ClusterTrustBundleAttest"
	SubjectName  = "CertificateSubjectRestriction"
)

var requests = []schema.GroupResource{admission.CertificateSigningRequests}

// Approval makes the plugin that allows an approval only to users who may
// "approve" for the request's signer. The stored signer counts, not one that
// the update sets.
func Approval(authorizer authz.Authorizer) admission.Plugin {
	return admission.Plugin{
		Name: ApprovalName, On: []admission.Operation{admission.Update}, Of: requests,
		Validator: admission.Func(func(ctx context.Context, a *admission.Attributes) error {
			if a.Subresource != "approval" {
				return nil
			}
			old, err := request(a, a.OldObject)
			if err != nil {
				return err
			}
			if !MayActFor(ctx, authorizer, a.User, "approve", old.Spec.SignerName) {
				return admission.Forbiddenf(a, "user not permitted to approve requests with signerName %q", old.Spec.SignerName)
			}
			return nil
		}),
	}
}

// Signing makes the plugin that lets only users who may "sign" for a request's
// signer set its certificate or change its conditions.
func Signing(authorizer authz.Authorizer) admission.Plugin {
	return admission.Plugin{
		Name: SigningName, On: []admission.Operation{admission.Update}, Of: requests,
		Validator: admission.Func(func(ctx context.Context, a *admission.Attributes) error {
			if a.Subresource != "status" {
				return nil
			}
			old, err := request(a, a.OldObject)
			if err != nil {
				return err
			}
			csr, err := request(a, a.Object)
			if err != nil {
				return err
			}
			if slices.Equal(old.Status.Certificate, csr.Status.Certificate) &&
				apiequality.Semantic.DeepEqual(old.Status.Conditions, csr.Status.Conditions) {
				return nil
			}
			if !MayActFor(ctx, authorizer, a.User, "sign", old.Spec.SignerName) {
				return admission.Forbiddenf(a, "user not permitted to sign requests with signerName %q", old.Spec.SignerName)
			}
			return nil
		}),
	}
}

// Attest makes the plugin that allows a trust bundle of a signer only to users
// who may "attest" for it. An update cannot change the signer.
func Attest(authorizer authz.Authorizer) admission.Plugin {
	return admission.Plugin{
		Name: AttestName, On: []admission.Operation{admission.Create, admission.Update},
		Of: []schema.GroupResource{admission.ClusterTrustBundles},
		Validator: admission.Func(func(ctx context.Context, a *admission.Attributes) error {
			b, ok := a.Object.(*certificatesv1.ClusterTrustBundle)
			if !ok {
				return admission.Forbiddenf(a, "unexpected type %T", a.Object)
			}
			signer := b.Spec.SignerName
			if old, ok := a.OldObject.(*certificatesv1.ClusterTrustBundle); signer == "" || ok && rules.OnlyForCollection(b, old) {
				return nil
			}
			if !MayActFor(ctx, authorizer, a.User, "attest", signer) {
				return admission.Forbiddenf(a, "user not permitted to attest for signerName %q", signer)
			}
			return nil
		}),
	}
}

// Subject makes the plugin that refuses requests for client certificates of the
// group system:masters, which may do everything.
func Subject() admission.Plugin {
	return admission.Plugin{
		Name: SubjectName, On: []admission.Operation{admission.Create}, Of: requests,
		Validator: admission.Func(func(_ context.Context, a *admission.Attributes) error {
			if a.Subresource != "" {
				return nil
			}
			csr, err := request(a, a.Object)
			if err != nil || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
				return err
			}
			cert, err := Parse(csr.Spec.Request)
			if err != nil {
				return admission.Forbidden(a, err)
			}
			if slices.Contains(cert.Subject.Organization, user.SystemPrivilegedGroup) {
				return admission.Forbiddenf(a, "use of %s signer with %s group is not allowed", csr.Spec.SignerName, user.SystemPrivilegedGroup)
			}
			return nil
		}),
	}
}

func request(a *admission.Attributes, obj any) (*certificatesv1.CertificateSigningRequest, error) {
	csr, ok := obj.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return nil, admission.Forbiddenf(a, "unexpected type %T", obj)
	}
	return csr, nil
}

// Parse reads a request in PEM.
func Parse(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	cert, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse certificate request: %w", err)
	}
	return cert, nil
}

// MayActFor says whether a user has a verb on a signer, or on all signers of
// its domain. An error of the authorizer counts as no.
func MayActFor(ctx context.Context, authorizer authz.Authorizer, u user.Info, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range [...]string{signer, domain + "/*"} {
		decision, _, err := authorizer.Authorize(ctx, &authz.Attributes{
			User: u, Verb: verb, IsResource: true, Name: name,
			Group: certificatesv1.GroupName, Version: "*", Resource: "signers",
		})
		if err == nil && decision == authz.Allow {
			return true
		}
	}
	return false
}
