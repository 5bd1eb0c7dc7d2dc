package rbac

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kanzen-io/kanzen/internal/access/authz"
)

// Explanation is why RBAC allows a request or does not.
type Explanation struct {
	// Considered are the bindings that name the user or a group of it, where they apply.
	Considered []Considered
	// Would are bindings that apply, would allow the request, and name somebody else.
	Would []Considered
	// Roles would allow the request, and no binding among those refers to them.
	Roles []rbacv1.RoleRef
}

// Considered is a binding, with the rule of its role that allows the request or comes nearest.
type Considered struct {
	Namespace, Name string
	Role            rbacv1.RoleRef
	Subjects        []rbacv1.Subject
	Allows          bool
	Rule            *rbacv1.PolicyRule // nil: the role has none
	Missing         []string           // of the rule
}

// explained bounds the bindings and roles of others that an explanation names.
const explained = 10

// Explain says why a request is allowed or not. It asks the same rules as Authorize.
func (x *Index) Explain(a *authz.Attributes) Explanation {
	var e Explanation
	named := map[*binding]bool{}
	for g := range x.subjects.Load().of(a.User, a.Namespace) {
		named[g.binding] = true
		c := g.consider(a)
		c.Subjects = []rbacv1.Subject{*g.subject}
		e.Considered = append(e.Considered, c)
	}
	slices.SortStableFunc(e.Considered, func(a, b Considered) int {
		if a.Allows != b.Allows {
			if a.Allows {
				return -1
			}
			return 1
		}
		return distance(a.Missing) - distance(b.Missing)
	})
	bound := map[name]bool{}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, b := range x.bindings {
		target, ok := b.target()
		if !ok || named[b] || b.namespace != "" && b.namespace != a.Namespace {
			continue
		}
		if r := b.rules(); r != nil && r.allows(a) {
			bound[target] = true
			c := b.consider(a)
			c.Subjects = b.subjects[:min(len(b.subjects), explained)]
			e.Would = append(e.Would, c)
		}
	}
	for n, c := range x.roles {
		r := c.role.Load()
		if r == nil || bound[n] || n.namespace != "" && n.namespace != a.Namespace || !r.allows(a) {
			continue
		}
		kind := "ClusterRole"
		if n.namespace != "" {
			kind = "Role"
		}
		e.Roles = append(e.Roles, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: n.name})
	}
	slices.SortFunc(e.Would, func(a, b Considered) int {
		return cmp.Or(strings.Compare(b.Namespace, a.Namespace), breadth(a.Rule)-breadth(b.Rule), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(e.Roles, func(a, b rbacv1.RoleRef) int {
		return cmp.Or(-strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	e.Would, e.Roles = e.Would[:min(len(e.Would), explained)], e.Roles[:min(len(e.Roles), explained)]
	return e
}

// breadth is 1 for a rule that allows everything: that is seldom what somebody needs.
func breadth(r *rbacv1.PolicyRule) int {
	if r != nil && slices.Contains(r.Verbs, rbacv1.VerbAll) {
		return 1
	}
	return 0
}

// consider finds the rule of a binding's role that comes nearest to a request.
func (b *binding) consider(a *authz.Attributes) Considered {
	c := Considered{Namespace: b.namespace, Name: b.name.name, Role: b.ref}
	r := b.rules()
	if r == nil {
		c.Missing = []string{"role"}
		return c
	}
	for n := range r.rules {
		missing := lacks(&r.rules[n], a)
		if missing == nil {
			continue
		}
		if c.Rule == nil || distance(missing) < distance(c.Missing) {
			c.Rule, c.Missing = &r.rules[n], missing
		}
	}
	c.Allows = r.allows(a)
	if c.Rule == nil {
		c.Missing = []string{"rule"}
	}
	return c
}

// distance says how far a rule is from a request: one for another resource is farther than one with another verb.
func distance(missing []string) (n int) {
	for _, m := range missing {
		switch m {
		case "role", "rule":
			n += 20
		case "resource", "group", "path":
			n += 5
		default:
			n++
		}
	}
	return n
}

// lacks returns what a rule lacks to allow a request: empty if it allows it, nil if it is about something else
// altogether (paths instead of resources).
func lacks(rule *rbacv1.PolicyRule, a *authz.Attributes) []string {
	all := []string{"*"}
	allows := func(r rbacv1.PolicyRule) bool { return (&role{rules: []rbacv1.PolicyRule{r}}).allows(a) }
	missing := []string{}
	check := func(what string, r rbacv1.PolicyRule) {
		if !allows(r) {
			missing = append(missing, what)
		}
	}
	if !a.IsResource {
		if len(rule.NonResourceURLs) == 0 {
			return nil
		}
		check("path", rbacv1.PolicyRule{Verbs: all, NonResourceURLs: rule.NonResourceURLs})
		check("verb", rbacv1.PolicyRule{Verbs: rule.Verbs, NonResourceURLs: all})
		return missing
	}
	if len(rule.Resources) == 0 {
		return nil
	}
	check("resource", rbacv1.PolicyRule{Verbs: all, APIGroups: all, Resources: rule.Resources})
	check("group", rbacv1.PolicyRule{Verbs: all, APIGroups: rule.APIGroups, Resources: all})
	check("verb", rbacv1.PolicyRule{Verbs: rule.Verbs, APIGroups: all, Resources: all})
	check("name", rbacv1.PolicyRule{Verbs: all, APIGroups: all, Resources: all, ResourceNames: rule.ResourceNames})
	return missing
}
