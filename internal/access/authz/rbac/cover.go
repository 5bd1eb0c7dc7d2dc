package rbac

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// atom is the smallest permission: one verb on one resource (of one name, or of any), or on one path. A rule is a set
// of atoms. Each atom is covered by one rule or by none.
type atom struct {
	verb            string
	group, resource string
	named           bool
	name            string
	isPath          bool
	path            string // replaces the resource fields above
}

// uncovered returns the atoms of wanted that no owned rule covers.
func uncovered(owned, wanted []rbacv1.PolicyRule) []atom {
	var missing []atom
	for i := range wanted {
		for _, a := range atoms(&wanted[i]) {
			if !slices.ContainsFunc(owned, func(r rbacv1.PolicyRule) bool { return a.coveredBy(&r) }) {
				missing = append(missing, a)
			}
		}
	}
	return missing
}

// Covers reports whether the owned rules contain every permission of the wanted ones.
func Covers(owned, wanted []rbacv1.PolicyRule) bool {
	return len(uncovered(owned, wanted)) == 0
}

// Missing returns the permissions of wanted that owned does not contain, as rules of one permission each.
func Missing(owned, wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, a := range uncovered(owned, wanted) {
		rules = append(rules, a.rule())
	}
	return rules
}

func atoms(r *rbacv1.PolicyRule) []atom {
	var all []atom
	for _, group := range r.APIGroups {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				a := atom{verb: verb, group: group, resource: resource}
				if len(r.ResourceNames) == 0 {
					all = append(all, a)
				}
				for _, name := range r.ResourceNames {
					a.named, a.name = true, name
					all = append(all, a)
				}
			}
		}
	}
	for _, path := range r.NonResourceURLs {
		for _, verb := range r.Verbs {
			all = append(all, atom{verb: verb, isPath: true, path: path})
		}
	}
	return all
}

func (a atom) coveredBy(r *rbacv1.PolicyRule) bool {
	if !hasOrAll(r.Verbs, a.verb) {
		return false
	}
	if a.isPath {
		return len(r.ResourceNames) == 0 && slices.ContainsFunc(r.NonResourceURLs, func(p string) bool {
			return p == a.path || strings.HasSuffix(p, "*") && strings.HasPrefix(a.path, strings.TrimRight(p, "*"))
		})
	}
	return hasOrAll(r.APIGroups, a.group) && a.resourceIn(r.Resources) &&
		(len(r.ResourceNames) == 0 || a.named && slices.Contains(r.ResourceNames, a.name))
}

func (a atom) resourceIn(resources []string) bool {
	if hasOrAll(resources, a.resource) {
		return true
	}
	_, subresource, ok := strings.Cut(a.resource, "/")
	return ok && slices.Contains(resources, "*/"+subresource)
}

func (a atom) rule() rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{Verbs: []string{a.verb}}
	if a.isPath {
		r.NonResourceURLs = []string{a.path}
		return r
	}
	r.APIGroups, r.Resources = []string{a.group}, []string{a.resource}
	if a.named {
		r.ResourceNames = []string{a.name}
	}
	return r
}

// describe formats permissions for people: one line for each resource or path, with its verbs.
func describe(missing []atom) []string {
	verbs := map[atom][]string{}
	var order []atom
	for _, a := range missing {
		what := a
		what.verb = ""
		if verbs[what] == nil {
			order = append(order, what)
		}
		verbs[what] = append(verbs[what], a.verb)
	}
	lines := make([]string, 0, len(order))
	for _, a := range order {
		switch {
		case a.isPath:
			lines = append(lines, fmt.Sprintf("{NonResourceURLs:[%q], Verbs:%q}", a.path, verbs[a]))
		case a.named:
			lines = append(lines, fmt.Sprintf("{APIGroups:[%q], Resources:[%q], ResourceNames:[%q], Verbs:%q}", a.group, a.resource, a.name, verbs[a]))
		default:
			lines = append(lines, fmt.Sprintf("{APIGroups:[%q], Resources:[%q], Verbs:%q}", a.group, a.resource, verbs[a]))
		}
	}
	slices.Sort(lines)
	return lines
}
