// Package authn finds out who sends a request: a front proxy's user, a client
// certificate's, a token's, or nobody in particular (anonymous). Each way is a
// small type; New puts those that are configured in their fixed order. A way
// that knows nothing of a request passes it on; credentials that are presented
// and turn out bad never make a request anonymous.
//
// Tokens are also reviewed for others (TokenReview), by the same authenticators.
package authn

import (
	"context"
	"crypto/x509"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
)

// Authenticator finds the user of a request. The bool says whether there is
// one; an error says that credentials were presented and are bad.
// Authenticating may remove credentials from the request's headers.
type Authenticator interface {
	Authenticate(r *http.Request) (user.Info, bool, error)
}

// Response is a user, and for which audiences the credential was good.
type Response struct {
	User user.Info
	// Audiences are those of the asked ones that the credential is for; nil
	// where credentials of this kind are for no audience in particular.
	Audiences []string
}

// TokenAuthenticator finds the user of a bearer token that is good for one of
// the audiences. Nil and no error: it does not know the token.
type TokenAuthenticator interface {
	AuthenticateToken(ctx context.Context, token string, audiences []string) (*Response, error)
}

// Config says which ways there are to authenticate. The zero value knows none.
type Config struct {
	// RequestHeader trusts a front proxy's headers; nil does not.
	RequestHeader *RequestHeader
	// ClientCA returns the authorities of client certificates as of now; nil
	// accepts no client certificates.
	ClientCA func() *x509.CertPool
	// Tokens are asked in this order: the token file, service accounts, bootstrap
	// tokens, and whatever asks another server comes last.
	Tokens Tokens
	// Anonymous says which requests without credentials are let in as nobody.
	Anonymous Anonymous
	Clock     clock.PassiveClock
}

// New makes the authenticator of a server.
func New(c Config) Authenticator {
	var ways union
	if c.RequestHeader != nil {
		ways = append(ways, &frontProxy{RequestHeader: *c.RequestHeader, clock: c.Clock})
	}
	if c.ClientCA != nil {
		ways = append(ways, &clientCert{authorities: c.ClientCA, clock: c.Clock})
	}
	if len(c.Tokens.Authenticators) > 0 {
		ways = append(ways, &bearer{c.Tokens}, &websocketBearer{c.Tokens})
	}
	return &root{credentials: ways, anonymous: c.Anonymous}
}

// root adds what holds for every user, however found.
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

// withAuthenticatedGroup adds the group of everyone who proved an identity.
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
