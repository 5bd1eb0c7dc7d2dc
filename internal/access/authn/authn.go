// Package authn authenticates requests: by a front proxy's headers, a client certificate, a token, or as anonymous.
// Each method is a small type; New puts the configured ones in their fixed order. A method that finds no credentials of
// its kind passes the request on. A request with bad credentials never becomes anonymous.
//
// The same token authenticators answer TokenReviews.
package authn

import (
	"context"
	"crypto/x509"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Authenticator finds the user of a request. The bool reports whether it found one; an error means that the request has
// bad credentials. Authenticate may remove credentials from the request's headers.
type Authenticator interface {
	Authenticate(r *http.Request) (user.Info, bool, error)
}

// Response is a user, and the audiences for which the credential is valid.
type Response struct {
	User user.Info
	// Audiences are the requested audiences for which the credential is valid; nil if credentials of this kind have no
	// audience.
	Audiences []string
	// Valid is how long the token is valid; nil if that is not known.
	Valid *request.Credential
}

// TokenAuthenticator finds the user of a bearer token that is valid for one of the audiences. It returns nil and no
// error for an unknown token.
type TokenAuthenticator interface {
	AuthenticateToken(ctx context.Context, token string, audiences []string) (*Response, error)
}

// Config lists the authentication methods. The zero value has none.
type Config struct {
	// RequestHeader is the front proxy whose headers are trusted; nil: none.
	RequestHeader *RequestHeader
	// ClientCA returns the current authorities of client certificates; nil: client certificates are not accepted.
	ClientCA func() *x509.CertPool
	// NoCertUID gives users of client certificates no UID, whatever their certificate says.
	NoCertUID bool
	// Tokens are tried in this order: the token file, service accounts, bootstrap tokens, then those that ask another
	// server.
	Tokens Tokens
	// Anonymous says which requests without credentials are anonymous.
	Anonymous Anonymous
	Clock     clock.PassiveClock
	// Registry gets the metric of client certificates. Optional.
	Registry prometheus.Registerer
}

// New creates the authenticator of a server.
func New(c Config) Authenticator {
	var ways union
	if c.RequestHeader != nil {
		ways = append(ways, &frontProxy{RequestHeader: *c.RequestHeader, clock: c.Clock})
	}
	if c.ClientCA != nil {
		cert := &clientCert{authorities: c.ClientCA, clock: c.Clock, noUID: c.NoCertUID}
		if c.Registry != nil {
			cert.left = newExpirations(c.Registry)
		}
		ways = append(ways, cert)
	}
	if len(c.Tokens.Authenticators) > 0 {
		ways = append(ways, &bearer{c.Tokens}, &websocketBearer{c.Tokens})
	}
	return &root{credentials: ways, anonymous: c.Anonymous}
}

// root adds what applies to every user, whatever the method.
type root struct {
	credentials union
	anonymous   Anonymous
}

// Authenticate finds the user of a request.
func (a *root) Authenticate(r *http.Request) (user.Info, bool, error) {
	u, ok, err := a.credentials.Authenticate(r)
	switch {
	case err != nil:
		return nil, false, err
	case ok:
		return withAuthenticatedGroup(u), true, nil
	case a.anonymous.allows(r.URL.Path):
		return &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, true, nil
	}
	return nil, false, nil
}

// withAuthenticatedGroup adds the group system:authenticated.
func withAuthenticatedGroup(u user.Info) user.Info {
	groups := u.GetGroups()
	if u.GetName() == user.Anonymous || slices.Contains(groups, user.AllAuthenticated) || slices.Contains(groups, user.AllUnauthenticated) {
		return u
	}
	return &user.DefaultInfo{
		Name: u.GetName(), UID: u.GetUID(), Extra: u.GetExtra(),
		Groups: append(slices.Clip(groups), user.AllAuthenticated),
	}
}
