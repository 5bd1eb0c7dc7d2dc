package server

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/apis/apiserver"

	"github.com/kanzen-io/kanzen/internal/authn"
	authnconfig "github.com/kanzen-io/kanzen/internal/authn/config"
	"github.com/kanzen-io/kanzen/internal/authn/oidc"
	"github.com/kanzen-io/kanzen/internal/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/authn/webhook"
	"github.com/kanzen-io/kanzen/internal/egress"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/remote"
)

// tokenTTL is how long the user of a token of an OpenID Connect issuer is
// remembered. Service accounts are not: their tokens end at once with what
// they are bound to.
const tokenTTL = 10 * time.Second

// authentication is the ways to authenticate. The issuers of tokens that a
// configuration file names change with it while the server runs.
type authentication struct {
	server    *Server
	tokens    authn.Tokens
	anonymous authn.Anonymous
	issuers   *oidc.Set
	metrics   *oidc.Metrics
	file      *reloader                      // nil without a file
	initial   *apiserver.AnonymousAuthConfig // of the file at the start
}

// newAuthentication makes what flags or the file say.
func (s *Server) newAuthentication() (*authentication, error) {
	r := s.metrics.Registry()
	a := &authentication{server: s, metrics: oidc.NewMetrics(r, identityName(&s.cfg), s.clock)}
	c, err := s.cfg.Authentication()
	if err != nil {
		return nil, err
	}
	if path := s.cfg.AuthenticationConfigFile; path != "" {
		a.file = &reloader{path: path, take: a.reload, clock: s.clock, log: s.log,
			metrics: newReloadMetrics(r, "authentication", identityName(&s.cfg))}
		data, err := a.file.read()
		if err == nil {
			c, err = authnconfig.Parse(data)
		}
		if err != nil {
			return nil, fmt.Errorf("--authentication-config: %w", err)
		}
		a.initial = c.Anonymous
	}
	issuers, err := a.make(c)
	if err != nil {
		return nil, fmt.Errorf("invalid authentication configuration: %w", err)
	}
	a.issuers = oidc.NewSet(s.clock, issuers...)
	if a.anonymous, err = s.cfg.Anonymous(c.Anonymous, s.authz.file == nil && s.authz.uses("AlwaysAllow")); err != nil {
		return nil, err
	}
	a.tokens, err = a.authenticators()
	return a, err
}

// make makes the authenticators of a configuration's issuers.
func (a *authentication) make(c *apiserver.AuthenticationConfiguration) ([]*oidc.Authenticator, error) {
	s := a.server
	mappings, err := authnconfig.Compile(c, s.cfg.ServiceAccountIssuers)
	if err != nil {
		return nil, err
	}
	algorithms := s.cfg.OIDCSigningAlgorithms
	if a.file != nil {
		algorithms = oidc.Algorithms()
	}
	var out []*oidc.Authenticator
	for i := range c.JWT {
		dial, err := s.dialIssuer(c.JWT[i].Issuer.EgressSelectorType)
		if err != nil {
			return nil, err
		}
		made, err := oidc.New(oidc.Options{Config: &c.JWT[i], Mapping: mappings[i], Algorithms: algorithms,
			Dial: dial, Clock: s.clock, Metrics: a.metrics, Log: s.log})
		if err != nil {
			return nil, err
		}
		out = append(out, made)
	}
	return out, nil
}

// dialIssuer is how an issuer is reached; nil: without a proxy. One that names
// a network is not reached otherwise.
func (s *Server) dialIssuer(network apiserver.EgressSelectorType) (utilnet.DialFunc, error) {
	if network == "" {
		return nil, nil
	}
	if s.egress == nil {
		return nil, fmt.Errorf("oidc: egress lookup required with egress selector type %q", network)
	}
	dial := s.egress.Dial(egress.Network(network)) // validated, and named alike
	if dial == nil {
		return nil, fmt.Errorf("oidc: egress lookup for %q is not configured", network)
	}
	return dial, nil
}

// reload puts a changed file in force.
func (a *authentication) reload(ctx context.Context, data []byte) error {
	c, err := authnconfig.Parse(data)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(c.Anonymous, a.initial) {
		return fmt.Errorf("anonymous: changed from initial configuration file")
	}
	issuers, err := a.make(c)
	if err != nil {
		return err
	}
	if err := a.issuers.Replace(ctx, issuers); err != nil {
		return passing{err}
	}
	return nil
}

// run reaches the issuers and follows the file until ctx ends.
func (a *authentication) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { a.issuers.Run(ctx) })
	if a.file != nil {
		wg.Go(func() { a.server.guard.Keep(ctx, "authentication configuration", a.file.run) })
	}
	if signer := a.server.keys.External; signer != nil {
		wg.Go(func() {
			a.server.guard.Keep(ctx, "external signer of tokens", func(ctx context.Context) { signer.Run(ctx) })
		})
	}
	wg.Wait()
}

// authenticators are the ways of tokens in their order: what is known here
// first, what others must be asked about last.
func (a *authentication) authenticators() (authn.Tokens, error) {
	s := a.server
	aud := s.audiences()
	t := authn.Tokens{Audiences: aud}
	if s.keys.TokenFile != nil {
		t.Authenticators = append(t.Authenticators, s.keys.TokenFile)
	}
	if s.keys.Verify != nil {
		legacy := serviceaccount.NewLegacyVerifier(s.keys.Verify, s.objects, s.clock)
		legacy.MarkUsed, legacy.NoLookup = a.markUsed, !s.cfg.ServiceAccountLookup
		bound := serviceaccount.NewVerifier(s.cfg.ServiceAccountIssuers, s.keys.Verify, &referents{Raw: s.objects}, s.clock)
		uses := serviceaccount.NewMetrics(s.metrics.Registry())
		bound.Metrics, legacy.Metrics = uses, uses
		// Bound tokens first: they are the many, and known by their hash. Whose
		// a token is hangs on its issuer, so the order decides nothing.
		t.Authenticators = append(t.Authenticators,
			authn.ServiceAccounts(bound, aud),
			authn.LegacyServiceAccounts(legacy, aud))
	}
	if s.cfg.BootstrapTokenAuth {
		t.Authenticators = append(t.Authenticators, authn.BootstrapTokens(s.objects, aud, s.clock))
	}
	remembered := authn.NewCacheMetrics(s.metrics.Registry())
	t.Authenticators = append(t.Authenticators, authn.Cached(authn.ForAudiences(aud, a.issuers.Authenticate),
		authn.CacheConfig{Success: tokenTTL, Clock: s.clock, Metrics: remembered}))
	if s.cfg.TokenWebhookFile == "" {
		return t, nil
	}
	client, err := remote.FromKubeconfig(s.cfg.TokenWebhookFile, 0, s.egress.Dial(egress.ControlPlane))
	if err != nil {
		return t, fmt.Errorf("--authentication-token-webhook-config-file: %w", err)
	}
	hook := &webhook.Authenticator{Client: client, Version: s.cfg.TokenWebhookVersion, Implicit: aud, Retry: remote.DefaultRetry(s.clock), Log: s.log}
	if err := hook.Validate(); err != nil {
		return t, err
	}
	t.Authenticators = append(t.Authenticators, authn.Cached(hook,
		authn.CacheConfig{Success: s.cfg.TokenWebhookTTL, Failure: s.cfg.TokenWebhookTTL, Clock: s.clock, Metrics: remembered}))
	return t, nil
}

// markUsed writes on a secret the day when its token was last used. A token is
// not refused because that does not succeed.
func (a *authentication) markUsed(ctx context.Context, secret *corev1.Secret, day string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := a.server.objects.Update(ctx, schema.GroupResource{Resource: "secrets"}, secret.Namespace, secret.Name, false, func(o engine.Object) error {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[serviceaccount.LastUsedLabel] = day
		o.SetLabels(labels)
		return nil
	})
	if err != nil {
		a.server.log.Warn("could not write down the use of a service-account token", "namespace", secret.Namespace, "secret", secret.Name, "error", err)
	}
}

// authenticator is every way to authenticate that is configured.
func (s *Server) authenticator() authn.Authenticator {
	c := authn.Config{Clock: s.clock, Tokens: s.authn.tokens, Anonymous: s.authn.anonymous}
	if s.keys.ClientCA != nil {
		c.ClientCA = s.keys.ClientCA.Pool
	}
	if s.keys.RequestHeaderCA != nil {
		c.RequestHeader = &authn.RequestHeader{
			HeaderNames: s.proxyHeaders(), Authorities: s.keys.RequestHeaderCA.Pool, AllowedNames: s.cfg.RequestHeaderAllowedNames,
		}
	}
	return authn.New(c)
}

// audiences are the API server's own.
func (s *Server) audiences() []string {
	if len(s.cfg.APIAudiences) > 0 {
		return s.cfg.APIAudiences
	}
	return slices.Clone(s.cfg.ServiceAccountIssuers)
}

// tokenIssuer answers token requests.
func (s *Server) tokenIssuer() *serviceaccount.TokenIssuer {
	t := &serviceaccount.TokenIssuer{
		Signer: s.keys.Signer, Objects: s.objects, Clock: s.clock, Audiences: s.audiences(),
		MaxLife: s.cfg.ServiceAccountMaxExpiration, Extend: s.cfg.ServiceAccountExtend,
	}
	if s.keys.External != nil {
		t.MaxExtended = s.keys.External.MaxLife
		if t.MaxLife == 0 {
			t.MaxLife = s.keys.External.MaxLife
		}
	}
	return t
}
