// Package methods builds the authentication methods named by a server's flags or the file of --authentication-config.
package methods

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	authnconfig "github.com/kanzen-io/kanzen/internal/access/authn/config"
	"github.com/kanzen-io/kanzen/internal/access/authn/oidc"
	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/access/authn/webhook"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/reload"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
	"github.com/kanzen-io/kanzen/internal/wire/remote"
	"github.com/prometheus/client_golang/prometheus"
)

// tokenTTL is how long the user of an OpenID Connect token is remembered. Service account tokens are not remembered:
// they end at once with the object they are bound to.
const tokenTTL = 10 * time.Second

// Config is the input of New.
type Config struct {
	// Flags are the issuers named by flags, in the form of the file; File overrides them.
	Flags *apiserver.AuthenticationConfiguration
	File  string
	// Algorithms are the signature algorithms accepted from the issuer that flags name.
	Algorithms []string
	// Anonymous returns which requests may be anonymous, given the file's setting.
	Anonymous func(file *apiserver.AnonymousAuthConfig) (authn.Anonymous, error)
	// Audiences are the API server's own.
	Audiences []string
	// TokenFile authenticates the tokens of --token-auth-file; nil: there is none.
	TokenFile       authn.TokenAuthenticator
	ServiceAccounts ServiceAccounts
	// Secrets holds the bootstrap tokens; nil: they are not accepted.
	Secrets serviceaccount.Objects
	// WebhookFile is the kubeconfig of a token webhook.
	WebhookFile, WebhookVersion string
	WebhookTTL                  time.Duration
	// ClientCA returns the current authorities of client certificates; nil: there are none.
	ClientCA func() *x509.CertPool
	// NoCertUID takes no UID from client certificates (the gate AllowParsingUserUIDFromCertAuth is off).
	NoCertUID bool
	// NoIssuerEgress forbids issuers that are reached through a proxy, and NoKeyMetrics does not measure how issuers' keys are
	// fetched (the gates StructuredAuthenticationConfigurationEgressSelector and ...JWKSMetrics are off).
	NoIssuerEgress, NoKeyMetrics bool
	// RequestHeader is the front proxy; nil: there is none.
	RequestHeader *authn.RequestHeader

	// Server names this server in metrics.
	Server   string
	Egress   *egress.Selector // nil: no proxies
	Registry prometheus.Registerer
	Clock    clock.WithTicker
	Guard    *guard.Guard
	Log      *slog.Logger
}

// ServiceAccounts configures the verification of service account tokens.
type ServiceAccounts struct {
	Issuers   []string
	Keys      serviceaccount.KeySource // nil: they are not accepted
	Objects   serviceaccount.Objects
	Referents serviceaccount.Referents
	// NoLookup accepts legacy tokens whose secret is gone; MarkUsed records on a secret the day of the last use of its
	// token.
	NoLookup bool
	// Webhooks accepts tokens that are bound to webhook configurations.
	Webhooks bool
	MarkUsed func(ctx context.Context, secret *corev1.Secret, day string)
}

// Set is the configured authentication methods. When the configuration file changes, its issuers are replaced while the
// server runs.
type Set struct {
	Config
	// Tokens are the methods for bearer tokens.
	Tokens    authn.Tokens
	anonymous authn.Anonymous
	issuers   *oidc.Set
	metrics   *oidc.Metrics
	file      *reload.File                   // nil without a file
	initial   *apiserver.AnonymousAuthConfig // from the file, at the start
	hook      *remote.Client                 // nil without a token webhook
	once      sync.Once
	all       authn.Authenticator // set by once
}

// New creates the methods named by the flags or the file.
func New(cfg Config) (*Set, error) {
	s := &Set{Config: cfg, metrics: oidc.NewMetrics(cfg.Registry, cfg.Server, cfg.Clock)}
	c := cfg.Flags
	if cfg.File != "" {
		s.file = &reload.File{Path: cfg.File, Take: s.reload, Clock: s.Clock, Log: s.Log,
			Metrics: reload.NewMetrics(cfg.Registry, "authentication", cfg.Server)}
		data, err := s.file.Read()
		if err == nil {
			c, err = authnconfig.Parse(data)
		}
		if err != nil {
			return nil, fmt.Errorf("--authentication-config: %w", err)
		}
		s.initial = c.Anonymous
	}
	issuers, err := s.make(c)
	if err != nil {
		from := "--authentication-config"
		if cfg.File == "" {
			from = "--oidc-issuer-url, --oidc-ca-file, --oidc-signing-algs"
		}
		return nil, fmt.Errorf("%s: invalid authentication configuration: %w", from, err)
	}
	s.issuers = oidc.NewSet(s.Clock, issuers...)
	if s.anonymous, err = cfg.Anonymous(c.Anonymous); err != nil {
		return nil, err
	}
	s.Tokens, err = s.authenticators()
	return s, err
}

// make creates the authenticators of a configuration's issuers.
func (s *Set) make(c *apiserver.AuthenticationConfiguration) ([]*oidc.Authenticator, error) {
	mappings, err := authnconfig.Rules{Disallowed: s.ServiceAccounts.Issuers, NoEgress: s.NoIssuerEgress}.Compile(c)
	if err != nil {
		return nil, err
	}
	algorithms := s.Algorithms
	if s.file != nil {
		algorithms = oidc.Algorithms()
	}
	var out []*oidc.Authenticator
	for i := range c.JWT {
		dial, err := s.dialIssuer(c.JWT[i].Issuer.EgressSelectorType)
		if err != nil {
			return nil, err
		}
		made, err := oidc.New(oidc.Options{Config: &c.JWT[i], Mapping: mappings[i], Algorithms: algorithms,
			Dial: dial, Clock: s.Clock, Metrics: s.metrics, NoKeyMetrics: s.NoKeyMetrics, Log: s.Log})
		if err != nil {
			return nil, err
		}
		out = append(out, made)
	}
	return out, nil
}

// dialIssuer returns the dialer for an issuer; nil: no proxy. It fails if the issuer names a network that has no proxy.
func (s *Set) dialIssuer(network apiserver.EgressSelectorType) (utilnet.DialFunc, error) {
	if network == "" {
		return nil, nil
	}
	if s.Egress == nil {
		return nil, fmt.Errorf("oidc: egress lookup required with egress selector type %q", network)
	}
	dial := s.Egress.Dial(egress.Network(network)) // already validated; the names are the same
	if dial == nil {
		return nil, fmt.Errorf("oidc: egress lookup for %q is not configured", network)
	}
	return dial, nil
}

// reload applies a changed file.
func (s *Set) reload(ctx context.Context, data []byte) error {
	c, err := authnconfig.Parse(data)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(c.Anonymous, s.initial) {
		return fmt.Errorf("anonymous: changed from initial configuration file")
	}
	issuers, err := s.make(c)
	if err != nil {
		return err
	}
	if err := s.issuers.Replace(ctx, issuers); err != nil {
		return reload.NewPassing(err)
	}
	return nil
}

// Run connects to the issuers and watches the file until ctx ends.
func (s *Set) Run(ctx context.Context) {
	var wg sync.WaitGroup
	if s.file != nil {
		wg.Go(func() { s.Guard.Keep(ctx, "authentication configuration", s.file.Run) })
	}
	s.issuers.Run(ctx)
	wg.Wait()
}

// Close closes the connections to issuers and the webhook.
func (s *Set) Close() error {
	s.issuers.Close()
	if s.hook != nil {
		s.hook.Close()
	}
	return nil
}

// authenticators returns the token methods in order: local ones first, those that ask another server last.
func (s *Set) authenticators() (authn.Tokens, error) {
	aud := s.Audiences
	t := authn.Tokens{Audiences: aud}
	if s.TokenFile != nil {
		t.Authenticators = append(t.Authenticators, s.TokenFile)
	}
	if sa := s.ServiceAccounts; sa.Keys != nil {
		legacy := serviceaccount.NewLegacyVerifier(sa.Keys, sa.Objects, s.Clock)
		legacy.MarkUsed, legacy.NoLookup = sa.MarkUsed, sa.NoLookup
		bound := serviceaccount.NewVerifier(sa.Issuers, sa.Keys, sa.Referents, s.Clock)
		bound.Webhooks = sa.Webhooks
		uses := serviceaccount.NewMetrics(s.Registry)
		bound.Metrics, legacy.Metrics = uses, uses
		// Bound tokens come first: they are the most frequent, and remembered by hash. The order does not change the
		// result, because the issuer of a token selects its method.
		t.Authenticators = append(t.Authenticators,
			authn.ServiceAccounts(bound, aud),
			authn.LegacyServiceAccounts(legacy, aud))
	}
	if s.Secrets != nil {
		t.Authenticators = append(t.Authenticators, authn.BootstrapTokens(s.Secrets, aud, s.Clock))
	}
	remembered := authn.NewCacheMetrics(s.Registry)
	t.Authenticators = append(t.Authenticators, authn.Cached(authn.Dated(authn.ForAudiences(aud, s.issuers.Authenticate)),
		authn.CacheConfig{Success: tokenTTL, Clock: s.Clock, Metrics: remembered}))
	if s.WebhookFile == "" {
		return t, nil
	}
	client, err := remote.FromKubeconfig(s.WebhookFile, 0, s.Egress.Dial(egress.ControlPlane))
	if err != nil {
		return t, fmt.Errorf("--authentication-token-webhook-config-file: %w", err)
	}
	s.hook = client
	hook := &webhook.Authenticator{Client: client, Version: s.WebhookVersion, Implicit: aud, Retry: remote.DefaultRetry(s.Clock), Log: s.Log}
	if err := hook.Validate(); err != nil {
		return t, fmt.Errorf("--authentication-token-webhook-version: %w", err)
	}
	t.Authenticators = append(t.Authenticators, authn.Cached(hook,
		authn.CacheConfig{Success: s.WebhookTTL, Failure: s.WebhookTTL, Clock: s.Clock, Metrics: remembered}))
	return t, nil
}

// Authenticator returns the authenticator with all configured methods, each time the same.
func (s *Set) Authenticator() authn.Authenticator {
	s.once.Do(func() { s.all = s.join() })
	return s.all
}

func (s *Set) join() authn.Authenticator {
	return authn.New(authn.Config{Clock: s.Clock, Registry: s.Registry, Tokens: s.Tokens, Anonymous: s.anonymous, ClientCA: s.ClientCA, NoCertUID: s.NoCertUID, RequestHeader: s.RequestHeader})
}
