package server

import (
	"context"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/access/authn/methods"
	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/access/authz/modes"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/engine/forks"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"k8s.io/apiserver/pkg/apis/apiserver"
)

// This file wires authentication.

// authentication makes the authenticators that the settings name.
func (b *base) authentication(k *keys.Keys, authorizers *modes.Set) (*methods.Set, error) {
	flags, err := b.cfg.Authentication()
	if err != nil {
		return nil, err
	}
	c := methods.Config{
		Flags: flags, File: b.cfg.AuthenticationConfigFile, Algorithms: b.cfg.OIDCSigningAlgorithms,
		Anonymous: func(file *apiserver.AnonymousAuthConfig) (authn.Anonymous, error) {
			return b.cfg.Anonymous(file, !authorizers.FromFile() && authorizers.Uses("AlwaysAllow"), b.consolePaths())
		},
		Audiences: b.cfg.Audiences(), TokenFile: k.TokenFile,
		ServiceAccounts: methods.ServiceAccounts{
			Issuers: b.cfg.ServiceAccountIssuers, Keys: k.Verify, Objects: b.objects, Referents: &catalog.Referents{Raw: b.objects},
			NoLookup: !b.cfg.ServiceAccountLookup, MarkUsed: b.objects.MarkUsed(b.log), Webhooks: b.cfg.Gates().Enabled(features.APIServerWebhookAuthenticationToken),
		},
		WebhookFile: b.cfg.TokenWebhookFile, WebhookVersion: b.cfg.TokenWebhookVersion, WebhookTTL: b.cfg.TokenWebhookTTL,
		NoIssuerEgress: b.cfg.Gates().Off(features.StructuredAuthenticationConfigurationEgressSelector),
		NoKeyMetrics:   b.cfg.Gates().Off(features.StructuredAuthenticationConfigurationJWKSMetrics),
		Server:         controlplane.IdentityName(b.process.Hostname()), Egress: b.process.Egress,
		Registry: b.metrics.Registry(), Clock: b.process.Clock, Guard: b.guard, Log: b.log,
	}
	if b.cfg.BootstrapTokenAuth {
		c.Secrets = b.objects
	}
	if k.ClientCA != nil {
		c.ClientCA, c.NoCertUID = k.ClientCA.Pool, b.cfg.Gates().Off(features.AllowParsingUserUIDFromCertAuth)
	}
	if k.RequestHeaderCA != nil {
		headers, names := b.cfg.FrontProxy()
		c.RequestHeader = &authn.RequestHeader{HeaderNames: headers, Authorities: k.RequestHeaderCA.Pool, AllowedNames: names}
	}
	return methods.New(c)
}

// tokenIssuer makes the issuer that answers token requests.
func (b *base) tokenIssuer(k *keys.Keys, authorizers authz.Authorizer) *serviceaccount.TokenIssuer {
	t := &serviceaccount.TokenIssuer{
		Signer: k.Signer, Objects: b.objects, Clock: b.process.Clock, Audiences: b.cfg.Audiences(),
		MaxLife: b.cfg.ServiceAccountMaxExpiration, Extend: b.cfg.ServiceAccountExtend,
		AnyUID: b.cfg.Gates().Off(features.TokenRequestServiceAccountUIDValidation),
	}
	if b.cfg.Gates().Enabled(features.APIServerWebhookAuthenticationToken) {
		t.MayAttest = authz.Attest(authorizers)
	}
	if b.seams.origin.rehearses() {
		t.Signer = serviceaccount.NewExternalSigner("", func(context.Context, []byte) (string, error) { return "", forks.ErrOutside })
	}
	if k.External != nil {
		t.MaxExtended = k.External.MaxLife
		if t.MaxLife == 0 {
			t.MaxLife = k.External.MaxLife
		}
	}
	return t
}
