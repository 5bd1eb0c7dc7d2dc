package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"slices"
	"time"
)

// Authority issues certificates.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// Subject is the identity in a certificate.
type Subject struct {
	Name   string
	Groups []string
	// Server makes it a serving certificate for the names and addresses; otherwise it is a client certificate.
	Server bool
	// Client makes it a client certificate as well, for members of a cluster, which connect to one another.
	Client bool
	DNS    []string
	IPs    []net.IP
	// Life is how long the certificate is valid; 0: a year.
	Life time.Duration
}

// addHosts adds hosts to names or addresses, without duplicates.
func (s *Subject) addHosts(hosts ...string) {
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			if !slices.ContainsFunc(s.IPs, ip.Equal) {
				s.IPs = append(s.IPs, ip)
			}
		} else if h != "" && !slices.Contains(s.DNS, h) {
			s.DNS = append(s.DNS, h)
		}
	}
}

func (s Subject) usage() []x509.ExtKeyUsage {
	switch {
	case s.Server && s.Client:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	case s.Server:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
}

// ensureAuthority loads or creates an authority. A renewal keeps key and name, so that certificates it has signed stay
// valid.
func ensureAuthority(certPath, keyPath, name string, now time.Time) (*Authority, error) {
	key, err := ensureKey(keyPath)
	if err != nil {
		return nil, err
	}
	cert, err := readCert(certPath)
	if err != nil {
		return nil, err
	}
	if cert != nil && now.Before(cert.NotAfter.Add(-authorityRenew)) && keyMatches(cert, key) {
		return &Authority{cert: cert, key: key}, nil
	}
	if cert, err = selfSign(name, key, now, authorityLife); err != nil {
		return nil, fmt.Errorf("sign %s: %w", certPath, err)
	}
	return &Authority{cert: cert, key: key}, writeFile(certPath, encodeCerts(cert.Raw), fileMode)
}

// selfSign creates the certificate of an authority.
func selfSign(name string, key crypto.Signer, now time.Time, life time.Duration) (*x509.Certificate, error) {
	template, err := template(name, nil, now, life)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// ensure creates or renews the certificate of a subject.
func (a *Authority) ensure(certPath, keyPath string, s Subject, now time.Time) error {
	key, err := ensureKey(keyPath)
	if err != nil {
		return err
	}
	cert, err := readCert(certPath)
	if err != nil {
		return err
	}
	if cert != nil && a.stands(cert, key, s, now) {
		return nil
	}
	der, err := a.Issue(s, key.Public(), now)
	if err != nil {
		return fmt.Errorf("sign %s: %w", certPath, err)
	}
	return writeFile(certPath, encodeCerts(der), fileMode)
}

// stands reports whether a certificate is still valid for the subject.
func (a *Authority) stands(cert *x509.Certificate, key crypto.Signer, s Subject, now time.Time) bool {
	if !now.Before(cert.NotAfter.Add(-leafRenew)) || !keyMatches(cert, key) || cert.CheckSignatureFrom(a.cert) != nil {
		return false
	}
	if cert.Subject.CommonName != s.Name || !slices.Equal(cert.Subject.Organization, s.Groups) {
		return false
	}
	for _, name := range s.DNS {
		if !slices.Contains(cert.DNSNames, name) {
			return false
		}
	}
	for _, ip := range s.IPs {
		if !slices.ContainsFunc(cert.IPAddresses, ip.Equal) {
			return false
		}
	}
	return slices.Equal(cert.ExtKeyUsage, s.usage())
}

// Issue signs a certificate for a subject's public key and returns it in DER.
func (a *Authority) Issue(s Subject, public crypto.PublicKey, now time.Time) ([]byte, error) {
	life := s.Life
	if life == 0 {
		life = leafLife
	}
	template, err := template(s.Name, s.Groups, now, life)
	if err != nil {
		return nil, err
	}
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	template.ExtKeyUsage = s.usage()
	template.DNSNames, template.IPAddresses = s.DNS, s.IPs
	return x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
}

func template(name string, groups []string, now time.Time, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber:          serial.Add(serial, big.NewInt(1)),
		Subject:               pkix.Name{CommonName: name, Organization: groups},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(life),
		BasicConstraintsValid: true,
	}, nil
}

func encodeCerts(ders ...[]byte) []byte {
	var out []byte
	for _, der := range ders {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return out
}

// readCert returns the first certificate of a file, or nil if there is no file or it does not parse: certificates,
// unlike keys, can be issued again.
func readCert(path string) (*x509.Certificate, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, nil
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil //nolint:nilerr // a broken certificate is replaced
	}
	return cert, nil
}

func keyMatches(cert *x509.Certificate, key crypto.Signer) bool {
	public, ok := cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(key.Public())
}
