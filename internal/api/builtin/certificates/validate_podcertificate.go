package certificates

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"slices"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// longestKey is the limit for what has a public key, or proves that there is a private one, in bytes.
const longestKey = 10 << 10

func validatePodCertificate(_ context.Context, r *certificatesv1beta1.PodCertificateRequest) field.ErrorList {
	s := &r.Spec
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.ObjectMeta(&r.ObjectMeta, true, rules.Subdomain))
	rules.SignerName(s.SignerName, e.Field("signerName"))
	e.UserAnnotations("unverifiedUserAnnotations", s.UnverifiedUserAnnotations)
	e.Field("podName").Messages(s.PodName, rules.Subdomain(s.PodName, false))
	requiredUID(s.PodUID, e.Field("podUID"))
	e.Field("serviceAccountName").Messages(s.ServiceAccountName, rules.ServiceAccountName(s.ServiceAccountName, false))
	requiredUID(s.ServiceAccountUID, e.Field("serviceAccountUID"))
	e.Field("nodeName").Messages(s.NodeName, rules.Subdomain(string(s.NodeName), false))
	requiredUID(s.NodeUID, e.Field("nodeUID"))
	if s.MaxExpirationSeconds == nil {
		e.Field("maxExpirationSeconds").Required("must be set")
		return e.List()
	}
	shortest, longest := rules.CertificateLifetimes(s.SignerName)
	e.Range("maxExpirationSeconds", int64(*s.MaxExpirationSeconds), int64(shortest), int64(longest))
	requestedKey(s, e)
	return e.List()
}

func requiredUID(uid types.UID, e rules.Errors) {
	const longest = 128
	if uid == "" {
		e.Invalid(uid, "must not be empty")
	}
	if len(uid) > longest {
		e.TooLong(longest)
	}
}

// requestedKey validates the public key, which is in one of two forms, and that the requester has its private key.
func requestedKey(s *certificatesv1beta1.PodCertificateRequestSpec, e rules.Errors) {
	//lint:ignore SA1019 a stored request may have the field
	request, key, proof := s.StubPKCS10Request, s.PKIXPublicKey, s.ProofOfPossession
	switch {
	case len(request) > 0 && len(key) == 0 && len(proof) == 0:
		stubRequest(request, e.Field("stubPKCS10Request"))
	case len(request) == 0 && len(key) > 0 && len(proof) > 0:
		provenKey(key, proof, s.PodUID, e)
	default:
		e.Invalid(field.OmitValueType{}, "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set")
	}
}

// stubRequest validates the key and the signature of a request. Nothing else in it matters: kubelets leave it empty.
func stubRequest(der []byte, e rules.Errors) {
	if len(der) > longestKey {
		e.TooLong(longestKey)
		return
	}
	r, err := x509.ParseCertificateRequest(der)
	if err != nil {
		e.Invalid(field.OmitValueType{}, "must be a valid PKCS#10 CSR")
		return
	}
	if fault := keyFault(r.PublicKey); fault != "" {
		e.Invalid(field.OmitValueType{}, fault)
		return
	}
	if r.CheckSignature() != nil {
		e.Invalid(field.OmitValueType{}, "invalid signature")
	}
}

// provenKey validates a key and the signature of the pod's UID with it.
func provenKey(der, proof []byte, uid types.UID, e rules.Errors) {
	at, proofAt := e.Field("pkixPublicKey"), e.Field("proofOfPossession")
	if len(der) > longestKey {
		at.TooLong(longestKey)
		return
	}
	if len(proof) > longestKey {
		proofAt.TooLong(longestKey)
		return
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		at.Invalid(der, "must be a valid PKIX-serialized public key")
		return
	}
	if fault := keyFault(key); fault != "" {
		at.Invalid(field.OmitValueType{}, fault)
		return
	}
	if !signed(key, []byte(uid), proof) {
		proofAt.Invalid(field.OmitValueType{}, "could not verify proof-of-possession signature")
	}
}

// keyFault returns why a public key cannot be in a pod's certificate, "" if it can.
func keyFault(key crypto.PublicKey) string {
	switch k := key.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if !slices.Contains([]elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()}, k.Curve) {
			return "elliptic public keys must use curve P256, P384, or P521, not " + k.Params().Name
		}
	case *rsa.PublicKey:
		if bits := k.Size() * 8; bits != 3072 && bits != 4096 {
			return fmt.Sprintf("RSA keys must have modulus size 3072 or 4096, not %d", bits)
		}
	default:
		return "unknown public key type; supported types are Ed25519, ECDSA, and RSA"
	}
	return ""
}

// signed reports whether a signature of data is by the private key of a key that has no fault.
func signed(key crypto.PublicKey, data, signature []byte) bool {
	hash := sha256.Sum256(data)
	switch k := key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(k, data, signature)
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, hash[:], signature)
	case *rsa.PublicKey:
		return rsa.VerifyPSS(k, crypto.SHA256, hash[:], signature, nil) == nil
	}
	return false
}
