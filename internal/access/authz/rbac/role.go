package rbac

import (
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kanzen-io/kanzen/internal/access/authz"
)

// role is the rules of a Role or ClusterRole, indexed by resource on first use.
type role struct {
	rules []rbacv1.PolicyRule

	once sync.Once
	// byResource are the rules that name a resource or subresource.
	byResource map[resource][]*rbacv1.PolicyRule
	// bySubresource are the rules for a subresource of any resource ("*/scale").
	bySubresource map[string][]*rbacv1.PolicyRule
	// everywhere are the rules for all resources.
	everywhere []*rbacv1.PolicyRule
	// paths are the rules for non-resource paths.
	paths []*rbacv1.PolicyRule
}

// Rules is a fixed set of rules, for other authorizers.
type Rules struct{ role role }

// NewRules creates a set of rules, which must not change afterwards.
func NewRules(rules []rbacv1.PolicyRule) *Rules { return &Rules{role{rules: rules}} }

// Allow reports whether a rule allows the request.
func (r *Rules) Allow(a *authz.Attributes) bool { return r.role.allows(a) }

type resource struct{ name, subresource string }

func (r *role) compile() {
	r.byResource = map[resource][]*rbacv1.PolicyRule{}
	r.bySubresource = map[string][]*rbacv1.PolicyRule{}
	for i := range r.rules {
		rule := &r.rules[i]
		for _, name := range rule.Resources {
			if name == rbacv1.ResourceAll {
				r.everywhere = append(r.everywhere, rule)
				continue
			}
			res := splitResource(name)
			r.byResource[res] = append(r.byResource[res], rule)
			if res.name == "*" && res.subresource != "" {
				r.bySubresource[res.subresource] = append(r.bySubresource[res.subresource], rule)
			}
		}
		if len(rule.NonResourceURLs) > 0 {
			r.paths = append(r.paths, rule)
		}
	}
}

// splitResource splits "pods/log". Rules and requests are compared in this form, so that a request for the resource
// "pods/log", which a review may contain, equals one for the subresource. "pods/" does not equal "pods".
func splitResource(s string) resource {
	name, subresource, _ := strings.Cut(s, "/")
	if subresource == "" {
		return resource{s, ""}
	}
	return resource{name, subresource}
}

func (r *role) allows(a *authz.Attributes) bool {
	r.once.Do(r.compile)
	if !a.IsResource {
		return slices.ContainsFunc(r.paths, func(rule *rbacv1.PolicyRule) bool {
			return hasOrAll(rule.Verbs, a.Verb) && pathMatches(rule.NonResourceURLs, a.Path)
		})
	}
	return anyAllows(r.everywhere, a) || anyAllows(r.byResource[resourceOf(a)], a) ||
		a.Subresource != "" && anyAllows(r.bySubresource[a.Subresource], a)
}

func resourceOf(a *authz.Attributes) resource {
	switch {
	case !strings.Contains(a.Resource, "/"):
		return resource{a.Resource, a.Subresource}
	case a.Subresource == "":
		return splitResource(a.Resource)
	}
	return splitResource(a.Resource + "/" + a.Subresource)
}

// anyAllows checks the other conditions of rules that match the resource.
func anyAllows(rules []*rbacv1.PolicyRule, a *authz.Attributes) bool {
	for _, rule := range rules {
		if hasOrAll(rule.Verbs, a.Verb) && hasOrAll(rule.APIGroups, a.Group) &&
			(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.Name)) {
			return true
		}
	}
	return false
}

// hasOrAll reports whether a rule's list contains an item or "*".
func hasOrAll(list []string, item string) bool {
	for _, s := range list {
		if s == item || s == "*" {
			return true
		}
	}
	return false
}

func pathMatches(patterns []string, path string) bool {
	for _, p := range patterns {
		if p == path {
			return true
		}
		if strings.HasSuffix(p, "*") && strings.HasPrefix(path, strings.TrimRight(p, "*")) {
			return true
		}
	}
	return false
}
