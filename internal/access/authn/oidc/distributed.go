package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	gooidc "github.com/coreos/go-oidc/v3/oidc"

	"github.com/kanzen-io/kanzen/internal/access/authn/jwt"
)

// distributed fetches a claim that the issuer left out of the token because it is long, and for which the token names
// another source (OpenID Connect Core 1.0, 5.6.2). The source returns a token too, which is verified like the first.
type distributed struct {
	claim     string
	client    *http.Client
	config    *gooidc.Config
	audiences []string

	mu        sync.Mutex
	verifiers map[string]*verifier // by issuer; guarded by mu
}

// maxIssuers bounds the remembered issuers of distributed claims.
const maxIssuers = 64

// expand adds the claim to c if it is distributed.
func (d *distributed) expand(ctx context.Context, c claims) error {
	if _, ok := c[d.claim]; ok {
		return nil
	}
	var names map[string]string
	switch err := c.read("_claim_names", &names); {
	case errors.Is(err, errNoClaim):
		return nil
	case err != nil:
		return fmt.Errorf("oidc: error parsing distributed claim names: %w", err)
	}
	var sources map[string]struct {
		URL   string `json:"endpoint"`
		Token string `json:"access_token"`
	}
	switch err := c.read("_claim_sources", &sources); {
	case errors.Is(err, errNoClaim):
		return errors.New("oidc: no claim sources")
	case err != nil:
		return fmt.Errorf("oidc: could not parse claim sources: %w", err)
	}
	name, ok := names[d.claim]
	if !ok {
		return nil
	}
	source, ok := sources[name]
	if !ok {
		return fmt.Errorf("id token _claim_names contained a source %s missing in _claims_sources", name)
	}
	if source.URL == "" {
		return nil // aggregated claims are not supported
	}
	value, err := d.fetch(ctx, source.URL, source.Token)
	if err != nil {
		return err
	}
	c[d.claim] = value
	return nil
}

func (d *distributed) fetch(ctx context.Context, url, accessToken string) (json.RawMessage, error) {
	token, err := d.get(ctx, url, accessToken)
	if err != nil {
		return nil, fmt.Errorf("while getting distributed claim %q: %w", d.claim, err)
	}
	v, err := d.verifierOf(ctx, canonical(jwt.UnverifiedIssuer(token)))
	if err != nil {
		return nil, err
	}
	verified, err := v.verify(ctx, token)
	if err != nil {
		return nil, fmt.Errorf("verify distributed claim token: %w", err)
	}
	var c claims
	if err := verified.Claims(&c); err != nil {
		return nil, fmt.Errorf("could not parse distributed claims for claim %v: %w", d.claim, err)
	}
	value, ok := c[d.claim]
	if !ok {
		return nil, fmt.Errorf("jwt returned by distributed claim endpoint %q did not contain claim: %v", url, d.claim)
	}
	return value, nil
}

// verifierOf returns the verifier of an issuer; the first call reads its metadata.
func (d *distributed) verifierOf(ctx context.Context, issuer string) (*verifier, error) {
	d.mu.Lock()
	v := d.verifiers[issuer]
	d.mu.Unlock()
	if v != nil {
		return v, nil
	}
	provider, err := gooidc.NewProvider(gooidc.ClientContext(ctx, d.client), issuer)
	if err != nil {
		return nil, fmt.Errorf("verifying untrusted issuer %v failed: %w", issuer, err)
	}
	v = &verifier{provider.Verifier(d.config), d.audiences}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.verifiers == nil || len(d.verifiers) >= maxIssuers {
		d.verifiers = map[string]*verifier{}
	}
	d.verifiers[issuer] = v
	return v, nil
}

func (d *distributed) get(ctx context.Context, url, accessToken string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	if accessToken != "" {
		req.Header.Set("Authorization", "Bearer "+accessToken)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // the body is in memory
	if resp.StatusCode < http.StatusOK || resp.StatusCode > http.StatusIMUsed {
		return "", fmt.Errorf("error while getting distributed claim JWT: %v", resp.Status)
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}
