// Package config parses the file of --authentication-config: the accepted token issuers, and which requests may be
// anonymous.
package config

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"

	"github.com/kanzen-io/kanzen/internal/access/authn/oidc"
)

// maxIssuers bounds the number of issuers.
const maxIssuers = 64

// Parse parses a configuration of any version.
func Parse(data []byte) (*apiserver.AuthenticationConfiguration, error) {
	if len(data) == 0 {
		return nil, errors.New("empty config data")
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	obj, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), data)
	if err != nil {
		return nil, err
	}
	c, ok := obj.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("expected AuthenticationConfiguration, got %T", obj)
	}
	return c, nil
}

// Rules are what a configuration is validated by.
type Rules struct {
	// Disallowed are this server's own issuers.
	Disallowed []string
	// NoEgress: issuers are not reached through proxies (the gate StructuredAuthenticationConfigurationEgressSelector is off).
	NoEgress bool
}

// Compile validates a configuration and compiles each issuer's expressions.
func (r Rules) Compile(c *apiserver.AuthenticationConfiguration) ([]*oidc.Mapping, error) {
	root := field.NewPath("jwt")
	if len(c.JWT) > maxIssuers {
		return nil, field.ErrorList{field.TooMany(root, len(c.JWT), maxIssuers)}.ToAggregate()
	}
	var errs field.ErrorList
	if a := c.Anonymous; a != nil && !a.Enabled && len(a.Conditions) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("anonymous", "conditions"), a.Conditions, "enabled should be set to true when conditions are defined"))
	}
	if len(c.JWT) == 0 {
		return nil, errs.ToAggregate()
	}
	compiler, err := oidc.NewCompiler()
	if err != nil {
		return nil, err
	}
	var out []*oidc.Mapping
	issuers, discoveries := map[string]bool{}, map[string]bool{}
	for i := range c.JWT {
		j, at := &c.JWT[i], root.Index(i)
		errs = append(errs, r.validateIssuer(&j.Issuer, at.Child("issuer"))...)
		m, wrong := compiler.Compile(j, at)
		out, errs = append(out, m), append(errs, wrong...)
		if issuers[j.Issuer.URL] {
			errs = append(errs, field.Duplicate(at.Child("issuer", "url"), j.Issuer.URL))
		}
		issuers[j.Issuer.URL] = true
		if d := j.Issuer.DiscoveryURL; d != "" {
			if discoveries[d] {
				errs = append(errs, field.Duplicate(at.Child("issuer", "discoveryURL"), d))
			}
			discoveries[d] = true
		}
	}
	return out, errs.ToAggregate()
}

func (r Rules) validateIssuer(i *apiserver.Issuer, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if i.URL == "" {
		errs = append(errs, field.Required(at.Child("url"), ""))
	} else {
		if slices.Contains(r.Disallowed, i.URL) {
			errs = append(errs, field.Invalid(at.Child("url"), i.URL, fmt.Sprintf("URL must not overlap with disallowed issuers: %s", slices.Sorted(slices.Values(r.Disallowed)))))
		}
		errs = append(errs, validateURL(i.URL, at.Child("url"))...)
	}
	if d := i.DiscoveryURL; d != "" {
		if i.URL != "" && strings.TrimRight(i.URL, "/") == strings.TrimRight(d, "/") {
			errs = append(errs, field.Invalid(at.Child("discoveryURL"), d, "discoveryURL must be different from URL"))
		}
		errs = append(errs, validateURL(d, at.Child("discoveryURL"))...)
	}
	errs = append(errs, validateAudiences(i, at)...)
	if ca := i.CertificateAuthority; ca != "" {
		if err := validateAuthority([]byte(ca)); err != nil {
			errs = append(errs, field.Invalid(at.Child("certificateAuthority"), "<omitted>", err.Error()))
		}
	}
	if i.EgressSelectorType != "" && r.NoEgress {
		errs = append(errs, field.Invalid(at.Child("egressSelectorType"), i.EgressSelectorType, "egress selector is not supported when StructuredAuthenticationConfigurationEgressSelector feature gate is disabled"))
	}
	switch i.EgressSelectorType {
	case "", apiserver.EgressSelectorControlPlane, apiserver.EgressSelectorCluster:
	default:
		errs = append(errs, field.Invalid(at.Child("egressSelectorType"), i.EgressSelectorType, "egress selector must be either controlplane or cluster"))
	}
	return errs
}

func validateURL(s string, at *field.Path) field.ErrorList {
	u, err := url.Parse(s)
	if err != nil {
		return field.ErrorList{field.Invalid(at, s, err.Error())}
	}
	var errs field.ErrorList
	for _, rule := range []struct {
		broken bool
		says   string
	}{
		{u.Scheme != "https", "URL scheme must be https"},
		{u.User != nil, "URL must not contain a username or password"},
		{u.RawQuery != "", "URL must not contain a query"},
		{u.Fragment != "", "URL must not contain a fragment"},
	} {
		if rule.broken {
			errs = append(errs, field.Invalid(at, s, rule.says))
		}
	}
	return errs
}

func validateAudiences(i *apiserver.Issuer, at *field.Path) field.ErrorList {
	list, policy := at.Child("audiences"), at.Child("audienceMatchPolicy")
	if len(i.Audiences) == 0 {
		return field.ErrorList{field.Required(list, fmt.Sprintf("at least one %s is required", list))}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for n, a := range i.Audiences {
		if a == "" {
			errs = append(errs, field.Required(list.Index(n), ""))
		}
		if seen[a] {
			errs = append(errs, field.Duplicate(list.Index(n), a))
		}
		seen[a] = true
	}
	switch {
	case i.AudienceMatchPolicy == apiserver.AudienceMatchPolicyMatchAny:
	case len(i.Audiences) > 1:
		errs = append(errs, field.Invalid(policy, i.AudienceMatchPolicy, "audienceMatchPolicy must be MatchAny for multiple audiences"))
	case i.AudienceMatchPolicy != "":
		errs = append(errs, field.Invalid(policy, i.AudienceMatchPolicy, "audienceMatchPolicy must be empty or MatchAny for single audience"))
	}
	return errs
}

func validateAuthority(data []byte) error {
	found := false
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return err
		}
		found = true
	}
	if !found {
		return errors.New("data does not contain any valid RSA or ECDSA certificates")
	}
	return nil
}
