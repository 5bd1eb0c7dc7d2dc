package pki

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

const (
	// requestBackdate is how far back a requested certificate is valid; it is less than the shortest that may be asked for.
	requestBackdate = 5 * time.Minute
	// shortLife is the validity below which it is not shortened by that: it would be a noticeable part of it.
	shortLife = 8 * time.Hour
)

// LoadAuthority reads an authority's certificate and key.
func LoadAuthority(certPath, keyPath string) (*Authority, error) {
	cert, err := readCert(certPath)
	if err != nil {
		return nil, err
	}
	if cert == nil {
		return nil, fmt.Errorf("%s holds no certificate", certPath)
	}
	key, err := ensureKey(keyPath)
	if err != nil {
		return nil, err
	}
	if !keyMatches(cert, key) {
		return nil, fmt.Errorf("the key in %s is not that of the certificate in %s", keyPath, certPath)
	}
	return &Authority{cert: cert, key: key}, nil
}

// Sign signs what a request asks for, with the usages that it is allowed and valid for life from now, but not longer than
// the authority. It returns the certificate in PEM. The request's own extensions count for nothing, as with
// kube-controller-manager.
func (a *Authority) Sign(r *x509.CertificateRequest, usage x509.KeyUsage, extended []x509.ExtKeyUsage, life time.Duration, now time.Time) ([]byte, error) {
	if err := r.CheckSignature(); err != nil {
		return nil, fmt.Errorf("unable to verify certificate request signature: %w", err)
	}
	if !now.Before(a.cert.NotAfter) {
		return nil, errors.New("the authority's certificate has expired")
	}
	t, err := template("", nil, now, life)
	if err != nil {
		return nil, err
	}
	if life >= shortLife {
		t.NotAfter = t.NotAfter.Add(-requestBackdate)
	}
	t.NotBefore = now.Add(-requestBackdate)
	if t.NotAfter.After(a.cert.NotAfter) {
		t.NotAfter = a.cert.NotAfter
	}
	t.Subject, t.KeyUsage, t.ExtKeyUsage = r.Subject, usage, extended
	t.DNSNames, t.IPAddresses, t.EmailAddresses, t.URIs = r.DNSNames, r.IPAddresses, r.EmailAddresses, r.URIs
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, r.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// NewClient makes a key and a client certificate by the authority in a directory that Ensure has filled. It returns the
// authority's certificate too, all in PEM.
func NewClient(dir string, s Subject, now time.Time) (ca, cert, key []byte, err error) {
	f := filesIn(dir)
	if !exists(f.CAKey) {
		return nil, nil, nil, fmt.Errorf("%s is missing: it signs certificates", f.CAKey)
	}
	a, err := LoadAuthority(f.CACert, f.CAKey)
	if err != nil {
		return nil, nil, nil, err
	}
	k, err := newKey()
	if err != nil {
		return nil, nil, nil, err
	}
	der, err := a.Issue(s, k.Public(), now)
	if err != nil {
		return nil, nil, nil, err
	}
	if key, err = encodeKey(k); err != nil {
		return nil, nil, nil, err
	}
	return encodeCerts(a.cert.Raw), encodeCerts(der), key, nil
}
