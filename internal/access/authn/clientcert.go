package authn

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authn/cache"
	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/request"
)

// clientCert authenticates by a client certificate: the common name is the user name, the organizations are groups, an
// attribute is the UID.
type clientCert struct {
	authorities func() *x509.CertPool
	clock       clock.PassiveClock
	// noUID leaves out the UID.
	noUID bool
	// known are the users of verified certificates, by a hash of the presented chain: clients send the same chain with
	// every request.
	known cache.Cache[[sha256.Size]byte, knownCert]
	// left receives the remaining validity of each presented certificate, in seconds; nil: nobody does.
	left prometheus.Observer
}

// newExpirations makes the metric of how long certificates of clients will be valid, and registers it.
func newExpirations(r prometheus.Registerer) prometheus.Observer {
	const hour, day = 3600, 24 * 3600
	h := prometheus.NewHistogram(histogram.Opts(r, prometheus.HistogramOpts{Name: "apiserver_client_certificate_expiration_seconds",
		Help:    "How long the certificates with which clients authenticate will be valid.",
		Buckets: []float64{0, hour / 2, hour, 2 * hour, 6 * hour, 12 * hour, day, 2 * day, 4 * day, 7 * day, 30 * day, 90 * day, 180 * day, 360 * day}}))
	r.MustRegister(h)
	return h
}

// knownCert is a verified certificate. It is valid while the authorities are the same and the time is within the
// chain's validity.
type knownCert struct {
	user        user.Info
	authorities *x509.CertPool
	from, until time.Time
	// own is the validity of the certificate itself, which its client has to renew.
	own request.Credential
}

func (c *clientCert) Authenticate(r *http.Request) (user.Info, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	presented, authorities, now := r.TLS.PeerCertificates, c.authorities(), c.clock.Now()
	if c.left != nil {
		c.left.Observe(presented[0].NotAfter.Sub(now).Seconds())
	}
	hash := hashOf(presented)
	if k := c.known.Get(hash); k != nil && k.authorities == authorities && !now.Before(k.from) && now.Before(k.until) {
		request.SetCredential(r.Context(), &k.own)
		return k.user, true, nil
	}
	from, until, err := verifyClient(presented, authorities, now)
	if err != nil {
		return nil, false, err
	}
	u, err := c.userOf(presented[0])
	if u == nil || err != nil {
		return nil, false, err
	}
	k := &knownCert{user: u, authorities: authorities, from: from, until: until,
		own: request.Credential{Kind: request.CredentialCertificate, From: presented[0].NotBefore, Until: presented[0].NotAfter}}
	c.known.Put(hash, k)
	request.SetCredential(r.Context(), &k.own)
	return u, true, nil
}

func hashOf(certs []*x509.Certificate) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, cert := range certs {
		h.Write(cert.Raw)
	}
	h.Sum(sum[:0])
	return sum
}

// userOf returns the user that a certificate names, or nil.
func (c *clientCert) userOf(cert *x509.Certificate) (user.Info, error) {
	if cert.Subject.CommonName == "" {
		return nil, nil
	}
	uid := ""
	if !c.noUID {
		var err error
		if uid, err = uidOf(cert); err != nil {
			return nil, err
		}
	}
	sum := sha256.Sum256(cert.Raw)
	return &user.DefaultInfo{
		Name:   cert.Subject.CommonName,
		UID:    uid,
		Groups: cert.Subject.Organization,
		Extra:  map[string][]string{user.CredentialIDKey: {"X509SHA256=" + hex.EncodeToString(sum[:])}},
	}, nil
}

// verifyClient verifies a chain as presented, the client's own certificate first, then intermediates, and returns its
// validity.
func verifyClient(presented []*x509.Certificate, authorities *x509.CertPool, now time.Time) (from, until time.Time, err error) {
	options := x509.VerifyOptions{
		Roots:       authorities,
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		CurrentTime: now,
	}
	if len(presented) > 1 {
		options.Intermediates = x509.NewCertPool()
		for _, cert := range presented[1:] {
			options.Intermediates.AddCert(cert)
		}
	}
	chains, err := presented[0].Verify(options)
	if err != nil {
		return from, until, fmt.Errorf("verify the certificate of %q (serial %s): %w", presented[0].Subject.CommonName, presented[0].SerialNumber, err)
	}
	for i, cert := range chains[0] {
		if i == 0 || cert.NotBefore.After(from) {
			from = cert.NotBefore
		}
		if i == 0 || cert.NotAfter.Before(until) {
			until = cert.NotAfter
		}
	}
	return from, until, nil
}

// uidAttribute is the subject attribute that holds the UID.
var uidAttribute = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}

func uidOf(cert *x509.Certificate) (string, error) {
	uid, found := "", false
	for _, attribute := range cert.Subject.Names {
		if !attribute.Type.Equal(uidAttribute) {
			continue
		}
		value, ok := attribute.Value.(string)
		if !ok || value == "" || found {
			return "", errors.New("a certificate must have one UID, a string that is not empty, or none")
		}
		uid, found = value, true
	}
	return uid, nil
}
