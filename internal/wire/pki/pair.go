package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"time"

	"k8s.io/utils/clock"
)

// This file has keys and certificates that are not in files: whoever asks for them keeps them, in PEM.

// Pair is a certificate and its key, in PEM.
type Pair struct{ Cert, Key []byte }

// NewAuthority makes an authority of a name.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	return authority(name, now, authorityLife)
}

func authority(name string, now time.Time, life time.Duration) (*Authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	cert, err := selfSign(name, key, now, life)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key}, nil
}

// ParseAuthority reads what Pair has returned.
func ParseAuthority(p Pair) (*Authority, error) {
	block, _ := pem.Decode(p.Cert)
	if block == nil {
		return nil, errors.New("there is no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := ParsePrivateKey(p.Key)
	if err != nil {
		return nil, err
	}
	if !keyMatches(cert, key) {
		return nil, errors.New("the key is not that of the certificate")
	}
	return &Authority{cert: cert, key: key}, nil
}

// Pair returns the authority's certificate and key.
func (a *Authority) Pair() (Pair, error) {
	key, err := encodeKey(a.key)
	return Pair{Cert: encodeCerts(a.cert.Raw), Key: key}, err
}

// NewPair makes a key and has its certificate issued.
func (a *Authority) NewPair(s Subject, now time.Time) (Pair, error) {
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	der, err := a.Issue(s, key.Public(), now)
	if err != nil {
		return Pair{}, err
	}
	encoded, err := encodeKey(key)
	return Pair{Cert: encodeCerts(der), Key: encoded}, err
}

// NewSigningKey makes a key that signs tokens, in PEM.
func NewSigningKey() ([]byte, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	return encodeKey(key)
}

// CertOf is a pair as a CertFile that never changes.
func CertOf(p Pair) (*CertFile, error) {
	c := &CertFile{}
	return c, c.start(clock.RealClock{}, slog.Default(), nil, func() (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		return &pair, err
	})
}

// BundleOf is a bundle in PEM as a BundleFile that never changes.
func BundleOf(data []byte) (*BundleFile, error) {
	b := &BundleFile{}
	return b, b.start(clock.RealClock{}, slog.Default(), nil, func() (*bundle, error) { return parseBundle(data) })
}

// Near reports whether the certificate of a pair is to be renewed: it ends within a month, or cannot be read.
func (p Pair) Near(now time.Time) bool {
	block, _ := pem.Decode(p.Cert)
	if block == nil {
		return true
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	return err != nil || !now.Before(cert.NotAfter.Add(-leafRenew))
}

// parseBundle reads the certificates in PEM data.
func parseBundle(data []byte) (*bundle, error) {
	b := &bundle{pem: data, pool: x509.NewCertPool()}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		b.pool.AddCert(cert)
		b.certificates = append(b.certificates, cert)
	}
	if len(b.certificates) == 0 {
		return nil, errors.New("no certificate in it")
	}
	return b, nil
}
