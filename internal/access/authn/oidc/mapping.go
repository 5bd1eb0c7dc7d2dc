package oidc

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
)

// Mapping maps claims to a user, and validates claims and users. Compile creates it.
type Mapping struct {
	config                *apiserver.JWTAuthenticator
	username, groups, uid *expression // nil if a claim is named instead, or nothing
	extra                 []*expression
	claimRules, userRules []*expression
	byExpression          bool // some expression reads claims
}

// user maps verified claims to a user.
func (m *Mapping) user(ctx context.Context, c claims) (user.Info, error) {
	var seen ref.Val
	if m.byExpression {
		seen = c.value()
	}
	u := &user.DefaultInfo{}
	var err error
	if u.Name, err = m.name(ctx, c, seen); err != nil {
		return nil, err
	}
	if u.Groups, err = m.groupsOf(ctx, c, seen); err != nil {
		return nil, err
	}
	if u.UID, err = m.uidOf(ctx, c, seen); err != nil {
		return nil, err
	}
	if u.Extra, err = m.extraOf(ctx, c, seen); err != nil {
		return nil, err
	}
	if err := m.required(c); err != nil {
		return nil, err
	}
	if err := allTrue(ctx, m.claimRules, "claims", seen); err != nil {
		return nil, fmt.Errorf("oidc: error evaluating claim validation expression: %w", err)
	}
	if len(m.userRules) > 0 {
		if err := allTrue(ctx, m.userRules, "user", userValue(u)); err != nil {
			return nil, fmt.Errorf("oidc: error evaluating user info validation rule: %w", err)
		}
	}
	return u, nil
}

func userValue(u *user.DefaultInfo) ref.Val {
	groups, extra := u.Groups, u.Extra
	if groups == nil {
		groups = []string{}
	}
	if extra == nil {
		extra = map[string][]string{}
	}
	return nativeValue(map[string]any{"username": u.Name, "uid": u.UID, "groups": groups, "extra": extra})
}

func (m *Mapping) name(ctx context.Context, c claims, seen ref.Val) (string, error) {
	if m.username != nil {
		name, err := m.oneString(ctx, m.username, "username", seen)
		if err == nil && name == "" {
			err = errors.New("oidc: empty username via CEL expression is not allowed")
		}
		return name, err
	}
	from := m.config.ClaimMappings.Username
	var name string
	if err := c.read(from.Claim, &name); err != nil {
		return "", fmt.Errorf("oidc: parse username claims %q: %w", from.Claim, err)
	}
	if from.Claim == "email" {
		if err := verified(c); err != nil {
			return "", err
		}
	}
	return prefixed(from.Prefix, name), nil
}

// verified rejects an e-mail address whose email_verified claim is false. The claim is optional.
func verified(c claims) error {
	if _, ok := c["email_verified"]; !ok {
		return nil
	}
	var verified bool
	if err := c.read("email_verified", &verified); err != nil {
		return fmt.Errorf("oidc: parse 'email_verified' claim: %w", err)
	}
	if !verified {
		return errors.New("oidc: email not verified")
	}
	return nil
}

func prefixed(prefix *string, s string) string {
	if prefix == nil {
		return s
	}
	return *prefix + s
}

func (m *Mapping) oneString(ctx context.Context, e *expression, what string, seen ref.Val) (string, error) {
	v, err := e.eval(ctx, "claims", seen)
	if err != nil {
		return "", fmt.Errorf("oidc: error evaluating %s claim expression: %w", what, err)
	}
	s, ok := v.(types.String)
	if !ok {
		return "", fmt.Errorf("oidc: error evaluating %s claim expression: %s claim expression must return a string", what, what)
	}
	return string(s), nil
}

func (m *Mapping) groupsOf(ctx context.Context, c claims, seen ref.Val) ([]string, error) {
	from := m.config.ClaimMappings.Groups
	if _, ok := c[from.Claim]; ok && from.Claim != "" {
		var groups stringOrList
		if err := c.read(from.Claim, &groups); err != nil {
			return nil, fmt.Errorf("oidc: parse groups claim %q: %w", from.Claim, err)
		}
		for i := range groups {
			groups[i] = prefixed(from.Prefix, groups[i])
		}
		return groups, nil
	}
	if m.groups == nil {
		return nil, nil
	}
	v, err := m.groups.eval(ctx, "claims", seen)
	var groups []string
	if err == nil {
		groups, err = stringsOf(v)
	}
	if err != nil {
		return nil, fmt.Errorf("oidc: error evaluating group claim expression: %w", err)
	}
	return groups, nil
}

func (m *Mapping) uidOf(ctx context.Context, c claims, seen ref.Val) (uid string, err error) {
	switch from := m.config.ClaimMappings.UID.Claim; {
	case from != "":
		if err = c.read(from, &uid); err != nil {
			err = fmt.Errorf("oidc: parse uid claim %q: %w", from, err)
		}
	case m.uid != nil:
		return m.oneString(ctx, m.uid, "uid", seen)
	}
	return uid, err
}

// extraOf returns the results of the extra expressions, and the token's ID for audit logs.
func (m *Mapping) extraOf(ctx context.Context, c claims, seen ref.Val) (map[string][]string, error) {
	extra := map[string][]string{}
	var id string
	if c.read("jti", &id) == nil && id != "" {
		extra[user.CredentialIDKey] = []string{serviceaccount.CredentialID(id)}
	}
	for _, e := range m.extra {
		v, err := e.eval(ctx, "claims", seen)
		if err != nil {
			return nil, err
		}
		values, err := stringsOf(v)
		if err != nil {
			return nil, fmt.Errorf("oidc: error evaluating extra claim expression: %s: %w", e.text, err)
		}
		if len(values) > 0 {
			extra[e.key] = values
		}
	}
	if len(extra) == 0 {
		return nil, nil
	}
	return extra, nil
}

// required checks the claims that must have a certain value.
func (m *Mapping) required(c claims) error {
	for _, rule := range m.config.ClaimValidationRules {
		if rule.Claim == "" {
			continue
		}
		var value string
		switch err := c.read(rule.Claim, &value); {
		case errors.Is(err, errNoClaim):
			return fmt.Errorf("oidc: required claim %s not present in ID token", rule.Claim)
		case err != nil:
			return fmt.Errorf("oidc: parse claim %s: %w", rule.Claim, err)
		case value != rule.RequiredValue:
			return fmt.Errorf("oidc: required claim %s value does not match. Got = %s, want = %s", rule.Claim, value, rule.RequiredValue)
		}
	}
	return nil
}

// allTrue returns an error unless all rules are true with v as the variable.
func allTrue(ctx context.Context, rules []*expression, variable string, v ref.Val) error {
	for _, r := range rules {
		out, err := r.eval(ctx, variable, v)
		switch {
		case err != nil:
			return err
		case out.Type() != cel.BoolType:
			return errors.New("validation expression must return a boolean")
		case out != types.True:
			return fmt.Errorf("validation expression '%s' failed: %s", r.text, r.message)
		}
	}
	return nil
}
