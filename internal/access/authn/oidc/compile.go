package oidc

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
)

// Compile compiles the mappings and rules of an issuer's configuration, and returns everything that is wrong with them.
// The mapping is usable only without errors.
func (c *Compiler) Compile(j *apiserver.JWTAuthenticator, at *field.Path) (*Mapping, field.ErrorList) {
	m := &Mapping{config: j}
	p := &compilation{Compiler: c}
	p.claimRules(m, at.Child("claimValidationRules"))
	mappings := at.Child("claimMappings")
	m.username = p.claimOrExpression(j.ClaimMappings.Username, mappings.Child("username"), true)
	m.groups = p.claimOrExpression(j.ClaimMappings.Groups, mappings.Child("groups"), false)
	switch uid := j.ClaimMappings.UID; {
	case uid.Claim != "" && uid.Expression != "":
		p.add(field.Invalid(mappings.Child("uid"), "", "claim and expression can't both be set"))
	case uid.Expression != "":
		m.uid = p.claimsExpression(uid.Expression, cel.AnyType, mappings.Child("uid", "expression"))
	}
	p.extra(m, mappings.Child("extra"))
	p.email(m, mappings.Child("username", "expression"))
	p.userRules(m, at.Child("userValidationRules"))
	m.byExpression = m.username != nil || m.groups != nil || m.uid != nil || len(m.extra)+len(m.claimRules) > 0
	return m, p.errs
}

// compilation collects the errors.
type compilation struct {
	*Compiler
	errs field.ErrorList
}

func (p *compilation) add(err *field.Error) { p.errs = append(p.errs, err) }

func (p *compilation) claimsExpression(text string, result *cel.Type, at *field.Path) *expression {
	e, err := compile(p.claims, text, result, at)
	if err != nil {
		p.add(err)
	}
	return e
}

func (p *compilation) claimOrExpression(m apiserver.PrefixedClaimOrExpression, at *field.Path, required bool) *expression {
	switch {
	case m.Expression != "" && m.Claim != "":
		p.add(field.Invalid(at, "", "claim and expression can't both be set"))
	case m.Expression == "" && m.Claim == "" && required:
		p.add(field.Required(at, "claim or expression is required"))
	case m.Expression != "":
		if m.Prefix != nil {
			p.add(field.Invalid(at.Child("prefix"), *m.Prefix, "may not be specified when expression is set"))
		}
		return p.claimsExpression(m.Expression, cel.AnyType, at.Child("expression"))
	case m.Claim != "" && m.Prefix == nil:
		p.add(field.Required(at.Child("prefix"), "prefix is required when claim is set. It can be set to an empty string to disable prefixing"))
	}
	return nil
}

func (p *compilation) claimRules(m *Mapping, at *field.Path) {
	names, texts := map[string]bool{}, map[string]bool{}
	for i, rule := range m.config.ClaimValidationRules {
		at := at.Index(i)
		switch {
		case rule.Claim != "" && rule.Expression != "":
			p.add(field.Invalid(at, rule.Claim, "claim and expression can't both be set"))
		case rule.Claim == "" && rule.Expression == "":
			p.add(field.Required(at, "claim or expression is required"))
		case rule.Claim != "":
			if rule.Message != "" {
				p.add(field.Invalid(at.Child("message"), rule.Message, "may not be specified when claim is set"))
			}
			if names[rule.Claim] {
				p.add(field.Duplicate(at.Child("claim"), rule.Claim))
			}
			names[rule.Claim] = true
		default:
			if rule.RequiredValue != "" {
				p.add(field.Invalid(at.Child("requiredValue"), rule.RequiredValue, "may not be specified when expression is set"))
			}
			if texts[rule.Expression] {
				p.add(field.Duplicate(at.Child("expression"), rule.Expression))
				continue
			}
			texts[rule.Expression] = true
			if e := p.claimsExpression(rule.Expression, cel.BoolType, at.Child("expression")); e != nil {
				e.message = rule.Message
				m.claimRules = append(m.claimRules, e)
			}
		}
	}
}

func (p *compilation) extra(m *Mapping, at *field.Path) {
	keys := map[string]bool{}
	for i, mapping := range m.config.ClaimMappings.Extra {
		at, key := at.Index(i), mapping.Key
		p.errs = append(p.errs, utilvalidation.IsDomainPrefixedPath(at.Child("key"), key)...)
		if key != strings.ToLower(key) {
			p.add(field.Invalid(at.Child("key"), key, "must be lowercase"))
		}
		if reserved(key) {
			p.add(field.Invalid(at.Child("key"), key, "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"))
		}
		if keys[key] {
			p.add(field.Duplicate(at.Child("key"), key))
			continue
		}
		keys[key] = true
		if mapping.ValueExpression == "" {
			p.add(field.Required(at.Child("valueExpression"), ""))
			continue
		}
		if e := p.claimsExpression(mapping.ValueExpression, cel.AnyType, at.Child("valueExpression")); e != nil {
			e.key = key
			m.extra = append(m.extra, e)
		}
	}
}

// reserved reports whether a key is in a Kubernetes domain.
func reserved(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && slices.ContainsFunc([]string{"k8s.io", "kubernetes.io"}, func(d string) bool {
		return domain == d || strings.HasSuffix(domain, "."+d)
	})
}

// email requires that some expression checks email_verified if the username expression uses the email claim.
func (p *compilation) email(m *Mapping, at *field.Path) {
	if !m.username.uses("email") {
		return
	}
	looks := func(e *expression) bool { return e.uses("email_verified") }
	if !looks(m.username) && !slices.ContainsFunc(m.extra, looks) && !slices.ContainsFunc(m.claimRules, looks) {
		p.add(field.Invalid(at, m.username.text, "claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression"))
	}
}

func (p *compilation) userRules(m *Mapping, at *field.Path) {
	texts := map[string]bool{}
	for i, rule := range m.config.UserValidationRules {
		at := at.Index(i).Child("expression")
		switch {
		case rule.Expression == "":
			p.add(field.Required(at, ""))
			continue
		case texts[rule.Expression]:
			p.add(field.Duplicate(at, rule.Expression))
			continue
		}
		texts[rule.Expression] = true
		e, err := compile(p.user, rule.Expression, cel.BoolType, at)
		if err != nil {
			p.add(err)
			continue
		}
		e.message = rule.Message
		m.userRules = append(m.userRules, e)
	}
}
