// Package oidc authenticates tokens of OpenID Connect issuers: JWTs signed with a key that the issuer publishes, for
// one of our audiences. A configuration maps their claims to a user, by claim names or expressions.
package oidc

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authn/jwt"
)

// retryEvery is the pause before an unreachable issuer is tried again.
const retryEvery = 10 * time.Second

// Algorithms returns the signature algorithms that may be configured; all use public keys.
func Algorithms() []string {
	return []string{gooidc.RS256, gooidc.RS384, gooidc.RS512, gooidc.ES256, gooidc.ES384, gooidc.ES512, gooidc.PS256, gooidc.PS384, gooidc.PS512}
}

// Options configure the authenticator of one issuer.
type Options struct {
	Config  *apiserver.JWTAuthenticator
	Mapping *Mapping
	// Algorithms are the accepted signature algorithms.
	Algorithms []string
	// Dial connects to the issuer; nil: a plain dialer.
	Dial    utilnet.DialFunc
	Clock   clock.WithTicker
	Metrics *Metrics
	// NoKeyMetrics: fetches of the keys are not measured.
	NoKeyMetrics bool
	Log          *slog.Logger
}

// Authenticator authenticates the tokens of one issuer.
type Authenticator struct {
	Options
	issuer   string
	client   *client
	verifier atomic.Pointer[verifier] // nil until the issuer's metadata has been read
	failure  atomic.Pointer[error]    // the last error, until then
	groups   *distributed             // nil if no claim is mapped to groups
}

// New creates an authenticator. It authenticates nobody until Run has reached the issuer.
func New(o Options) (*Authenticator, error) {
	for _, a := range o.Algorithms {
		if !slices.Contains(Algorithms(), a) {
			return nil, fmt.Errorf("oidc: unsupported signing alg: %q", a)
		}
	}
	issuer := &o.Config.Issuer
	var roots *x509.CertPool
	if issuer.CertificateAuthority != "" {
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(issuer.CertificateAuthority)) {
			return nil, errors.New("oidc: the certificate authority has no certificates")
		}
	}
	a := &Authenticator{Options: o, issuer: issuer.URL}
	var err error
	if a.client, err = newClient(&o, roots); err != nil {
		return nil, err
	}
	if claim := o.Config.ClaimMappings.Groups.Claim; claim != "" {
		a.groups = &distributed{claim: claim, client: a.client.http, config: a.verifierConfig(), audiences: issuer.Audiences}
	}
	a.fail(fmt.Errorf("oidc: authenticator for issuer %q is not initialized", a.issuer))
	return a, nil
}

func (a *Authenticator) fail(err error) { a.failure.Store(&err) }

// Healthy returns nil if the issuer's tokens can be verified, otherwise the reason why not.
func (a *Authenticator) Healthy() error {
	if a.verifier.Load() != nil {
		return nil
	}
	return fmt.Errorf("oidc: authenticator for issuer %q is not healthy: %w", a.issuer, *a.failure.Load())
}

// Run reads the issuer's metadata, and retries until it succeeds or ctx ends: the issuer may run in the cluster that
// this server starts.
func (a *Authenticator) Run(ctx context.Context) {
	for {
		err := a.discover(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		a.fail(err)
		a.Log.Error("could not learn an issuer's keys, will try again", "issuer", a.issuer, "error", err)
		select {
		case <-a.Clock.After(retryEvery):
		case <-ctx.Done():
			return
		}
	}
}

// discover reads from the issuer's metadata where its keys are. The keys are fetched when needed.
func (a *Authenticator) discover(ctx context.Context) error {
	ctx = gooidc.ClientContext(ctx, a.client.http)
	provider, err := gooidc.NewProvider(ctx, a.issuer)
	if err != nil {
		return err
	}
	if a.NoKeyMetrics { // then nobody asks the metadata for the URL of the keys before they are needed
		a.verifier.Store(&verifier{provider.Verifier(a.verifierConfig()), a.Config.Issuer.Audiences})
		return nil
	}
	var metadata struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&metadata); err != nil {
		return err
	}
	if metadata.Keys == "" {
		return errors.New("provider did not return JWKS URL")
	}
	a.client.measure(ctx, metadata.Keys)
	keys := gooidc.NewRemoteKeySet(ctx, metadata.Keys)
	a.verifier.Store(&verifier{gooidc.NewVerifier(a.issuer, keys, a.verifierConfig()), a.Config.Issuer.Audiences})
	return nil
}

func (a *Authenticator) verifierConfig() *gooidc.Config {
	c := &gooidc.Config{SupportedSigningAlgs: a.Algorithms, Now: a.Clock.Now}
	if audiences := a.Config.Issuer.Audiences; len(audiences) == 1 {
		c.ClientID = audiences[0]
	} else {
		c.SkipClientIDCheck = true // verifier checks the audiences, of which there may be several
	}
	return c
}

// Authenticate returns the user of a token; nil and no error if the token is of another issuer.
func (a *Authenticator) Authenticate(ctx context.Context, token string) (user.Info, error) {
	if canonical(jwt.UnverifiedIssuer(token)) != a.issuer {
		return nil, nil
	}
	began := a.Clock.Now()
	u, err := a.authenticate(ctx, token)
	a.Metrics.authenticated(a.issuer, a.Clock.Since(began), err)
	return u, err
}

// canonical returns the name of an issuer. Google also issues tokens whose issuer has no scheme.
func canonical(issuer string) string {
	if issuer == "accounts.google.com" {
		return "https://accounts.google.com"
	}
	return issuer
}

func (a *Authenticator) authenticate(ctx context.Context, token string) (user.Info, error) {
	v := a.verifier.Load()
	if v == nil {
		return nil, errors.New("oidc: authenticator not initialized")
	}
	verified, err := v.verify(ctx, token)
	if err != nil {
		return nil, fmt.Errorf("oidc: verify token: %w", err)
	}
	var c claims
	if err := verified.Claims(&c); err != nil {
		return nil, fmt.Errorf("oidc: parse claims: %w", err)
	}
	if a.groups != nil {
		if err := a.groups.expand(ctx, c); err != nil {
			return nil, fmt.Errorf("oidc: could not expand distributed claims: %w", err)
		}
	}
	return a.Mapping.user(ctx, c)
}

// verifier verifies a token's signature, issuer, times, and that it is for one of the audiences.
type verifier struct {
	*gooidc.IDTokenVerifier
	audiences []string
}

func (v *verifier) verify(ctx context.Context, token string) (*gooidc.IDToken, error) {
	t, err := v.Verify(ctx, token)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(t.Audience, func(s string) bool { return slices.Contains(v.audiences, s) }) {
		return nil, fmt.Errorf("oidc: expected audience in %q got %q", v.audiences, t.Audience)
	}
	return t, nil
}
