package server

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/apis/apiserver"

	"github.com/kanzen-io/kanzen/internal/authn"
	"github.com/kanzen-io/kanzen/internal/authn/config"
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
	c, err := s.cfg.authentication()
	if err != nil {
		return nil, err
	}
	if path := s.cfg.AuthenticationConfigFile; path != "" {
		a.file = &reloader{path: path, take: a.reload, clock: s.clock, log: s.log,
			metrics: newReloadMetrics(r, "authentication", identityName(&s.cfg))}
		data, err := a.file.read()
		if err == nil {
			c, err = config.Parse(data)
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
	if a.anonymous, err = s.cfg.anonymous(c.Anonymous, s.authz.file == nil && s.authz.uses("AlwaysAllow")); err != nil {
		return nil, err
	}
	a.tokens, err = a.authenticators()
	return a, err
}

// authentication is the flags --oidc-* in the form of the file.
func (c *Config) authentication() (*apiserver.AuthenticationConfiguration, error) {
	out := &apiserver.AuthenticationConfiguration{}
	if c.AuthenticationConfigFile != "" || c.OIDCIssuerURL == "" {
		return out, nil
	}
	prefix := c.OIDCUsernamePrefix
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && c.OIDCUsernameClaim != "email":
		prefix = c.OIDCIssuerURL + "#"
	}
	j := apiserver.JWTAuthenticator{
		Issuer:        apiserver.Issuer{URL: c.OIDCIssuerURL, Audiences: []string{c.OIDCClientID}},
		ClaimMappings: apiserver.ClaimMappings{Username: apiserver.PrefixedClaimOrExpression{Claim: c.OIDCUsernameClaim, Prefix: &prefix}},
	}
	if c.OIDCGroupsClaim != "" {
		j.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Claim: c.OIDCGroupsClaim, Prefix: &c.OIDCGroupsPrefix}
	}
	if c.OIDCCAFile != "" {
		ca, err := os.ReadFile(c.OIDCCAFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-ca-file: %w", err)
		}
		j.Issuer.CertificateAuthority = string(ca)
	}
	for claim, value := range c.OIDCRequiredClaims {
		j.ClaimValidationRules = append(j.ClaimValidationRules, apiserver.ClaimValidationRule{Claim: claim, RequiredValue: value})
	}
	out.JWT = []apiserver.JWTAuthenticator{j}
	return out, nil
}

// anonymous is who is let in without credentials: as the file says, or the flags.
func (c *Config) anonymous(file *apiserver.AnonymousAuthConfig, allowAll bool) (authn.Anonymous, error) {
	switch {
	case file != nil && c.given != nil && c.given("anonymous-auth"):
		return authn.Anonymous{}, fmt.Errorf("--anonymous-auth: cannot be set when anonymous field is configured in authentication configuration file")
	case file != nil && !file.Enabled:
		return authn.Anonymous{}, nil
	case file != nil:
		a := authn.Anonymous{All: len(file.Conditions) == 0}
		for _, condition := range file.Conditions {
			a.Paths = append(a.Paths, condition.Path)
		}
		return a, nil
	case !c.AnonymousAuth, allowAll && !c.AnonymousHealthOnly:
		// Who allows everything to everyone does not mean nobody in particular.
		return authn.Anonymous{}, nil
	case c.AnonymousHealthOnly:
		return authn.AnonymousHealth(), nil
	}
	return authn.Anonymous{All: true}, nil
}

// make makes the authenticators of a configuration's issuers.
func (a *authentication) make(c *apiserver.AuthenticationConfiguration) ([]*oidc.Authenticator, error) {
	s := a.server
	mappings, err := config.Compile(c, s.cfg.ServiceAccountIssuers)
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
	c, err := config.Parse(data)
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
	if signer := a.server.keys.external; signer != nil {
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
	if s.keys.tokenFile != nil {
		t.Authenticators = append(t.Authenticators, s.keys.tokenFile)
	}
	if s.keys.verify != nil {
		legacy := serviceaccount.NewLegacyVerifier(s.keys.verify, s.objects, s.clock)
		legacy.MarkUsed, legacy.NoLookup = a.markUsed, !s.cfg.ServiceAccountLookup
		bound := serviceaccount.NewVerifier(s.cfg.ServiceAccountIssuers, s.keys.verify, &referents{objects: s.objects}, s.clock)
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
	if s.keys.clientCA != nil {
		c.ClientCA = s.keys.clientCA.Pool
	}
	if s.keys.requestHeaderCA != nil {
		c.RequestHeader = &authn.RequestHeader{
			HeaderNames: s.proxyHeaders(), Authorities: s.keys.requestHeaderCA.Pool, AllowedNames: s.cfg.RequestHeaderAllowedNames,
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
		Signer: s.keys.signer, Objects: s.objects, Clock: s.clock, Audiences: s.audiences(),
		MaxLife: s.cfg.ServiceAccountMaxExpiration, Extend: s.cfg.ServiceAccountExtend,
	}
	if s.keys.external != nil {
		t.MaxExtended = s.keys.external.MaxLife
		if t.MaxLife == 0 {
			t.MaxLife = s.keys.external.MaxLife
		}
	}
	return t
}
