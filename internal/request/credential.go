package request

import (
	"context"
	"time"
)

// Credential is how long the certificate or token with which a user has authenticated is valid. Many requests share one.
type Credential struct {
	Kind        string
	From, Until time.Time
}

// Kinds of credentials.
const (
	CredentialCertificate = "certificate"
	CredentialToken       = "token"
	// CredentialBootstrapToken is what nodes join with, and use until they have a certificate.
	CredentialBootstrapToken = "bootstrap token"
)

const (
	// longNotice is how long before its end the end of a credential is near at the earliest.
	longNotice = 14 * 24 * time.Hour
	// lastPart is the part of a credential's time in which its end is near. Kubelets renew certificates after 70 to 90 percent of
	// the time, and wait for the signature.
	lastPart = 12
	// shortLived is the time of credentials of which nothing is said: a kubelet renews tokens after four fifths of their time, and it
	// takes minutes until programs read them.
	shortLived = 30 * time.Minute
)

// Ending says that a request uses a credential that will soon be valid no more, though clients that renew theirs have another by then.
func (c *Credential) Ending(at time.Time) bool {
	life := c.Until.Sub(c.From)
	return !c.Until.IsZero() && life >= shortLived && c.Until.Sub(at) < min(longNotice, life/lastPart)
}

// SetCredential records with what the user of the context's request has authenticated.
func SetCredential(ctx context.Context, c *Credential) {
	if l := LatencyFrom(ctx); c != nil && l != nil && l.trail.recording {
		l.trail.credential.Store(c)
	}
}

// Credential returns with what the user has authenticated; nil if that is not known, or has no end.
func (l *Latency) Credential() *Credential { return l.trail.credential.Load() }
