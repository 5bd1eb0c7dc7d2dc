// Package oidc accepts the tokens of OpenID Connect issuers: JWTs that are
// signed with a key which the issuer publishes, and are for an audience of
// ours. A configuration says by claims or expressions what user they prove.
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

	"github.com/kanzen-io/kanzen/internal/authn/jwt"
)

// retryEvery is how long to wait before an issuer that could not be reached is
// asked for its keys again.
const retryEvery = 10 * time.Second

// Algorithms are the signatures that may be accepted: by public keys only.
func Algorithms() []string {
	return []string{gooidc.RS256, gooidc.RS384, gooidc.RS512, gooidc.ES256, gooidc.ES384, gooidc.ES512, gooidc.PS256, gooidc.PS384, gooidc.PS512}
}

// Options are those of one issuer.
type Options struct {
	Config  *apiserver.JWTAuthenticator
	Mapping *Mapping
	// Algorithms that tokens may be signed with.
	Algorithms []string
	// Dial connects to the issuer; nil: a plain dialer does.
	Dial    utilnet.DialFunc
	Clock   clock.WithTicker
	Metrics *Metrics
	Log     *slog.Logger
}

// Authenticator knows the tokens of one issuer.
type Authenticator struct {
	Options
	issuer   string
	client   *client
	verifier atomic.Pointer[verifier] // nil until the issuer told its keys
	failure  atomic.Pointer[error]    // why not, so far
	groups   *distributed             // nil without a claim for groups
}

// New makes an authenticator. It knows nobody until Run has reached the issuer.
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

// Healthy returns why the issuer's tokens cannot be verified; nil: they can.
func (a *Authenticator) Healthy() error {
	if a.verifier.Load() != nil {
		return nil
	}
	return fmt.Errorf("oidc: authenticator for issuer %q is not healthy: %w", a.issuer, *a.failure.Load())
}

// Run finds the issuer's keys, and tries until it does or ctx ends: an issuer
// may itself run in the cluster that this server is to start.
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

// discover asks the issuer where its keys are. They are fetched when needed.
func (a *Authenticator) discover(ctx context.Context) error {
	ctx = gooidc.ClientContext(ctx, a.client.http)
	provider, err := gooidc.NewProvider(ctx, a.issuer)
	if err != nil {
		return err
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
		c.SkipClientIDCheck = true // verifier checks for several
	}
	return c
}

// Authenticate finds the user of a token. Nil and no error: it is not of this issuer.
func (a *Authenticator) Authenticate(ctx context.Context, token string) (user.Info, error) {
	if canonical(jwt.UnverifiedIssuer(token)) != a.issuer {
		return nil, nil
	}
	began := a.Clock.Now()
	u, err := a.authenticate(ctx, token)
	a.Metrics.authenticated(a.issuer, a.Clock.Since(began), err)
	return u, err
}

// canonical is an issuer's name; one of them also signs without its scheme.
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

// verifier checks signature, issuer and times, and that a token is for one of
// the audiences.
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
