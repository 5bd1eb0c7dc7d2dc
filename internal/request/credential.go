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
)

// longNotice is how long before the end of a credential its end is near, if it was made for a longer time than this tenfold.
const longNotice = 14 * 24 * time.Hour

// Ending says that the credential will soon be valid no more, and its client has not taken another: clients that renew do so
// before nine tenths of the time are over.
func (c *Credential) Ending(now time.Time) bool {
	return !c.Until.IsZero() && c.Until.Sub(now) < min(longNotice, c.Until.Sub(c.From)/10)
}

// SetCredential records with what the user of the context's request has authenticated.
func SetCredential(ctx context.Context, c *Credential) {
	if l := LatencyFrom(ctx); c != nil && l != nil && l.trail.recording {
		l.trail.credential.Store(c)
	}
}

// Credential returns with what the user has authenticated; nil if that is not known, or has no end.
func (l *Latency) Credential() *Credential { return l.trail.credential.Load() }
