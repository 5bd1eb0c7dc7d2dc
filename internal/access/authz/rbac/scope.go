package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/request/scope"
)

// Scope is part of authz.Scoper. It looks only at the namespaces in which there are bindings for the user.
func (x *Index) Scope(a *authz.Attributes) scope.Set {
	if a.User == nil || !a.IsResource {
		return scope.Set{}
	}
	t := x.subjects.Load()
	s := scope.Set{Everywhere: t.names(a.User, "", a)}
	if s.All() {
		return s
	}
	for namespace := range t.namespaces(a.User) {
		if _, done := s.In[namespace]; done || a.Namespace != "" && a.Namespace != namespace {
			continue
		}
		if n := t.names(a.User, namespace, a); !n.Empty() {
			if s.In == nil {
				s.In = map[string]scope.Names{}
			}
			s.In[namespace] = n
		}
	}
	return s
}

// names returns the objects for which the bindings of one namespace, or the cluster-wide ones, allow a user what a asks.
func (t *table) names(u user.Info, namespace string, a *authz.Attributes) scope.Names {
	var n scope.Names
	t.visit(u, namespace, func(g *grant) bool {
		if r := g.rules(); r != nil {
			n = n.With(r.names(a))
		}
		return !n.All
	})
	return n
}

// names returns the objects for which the rules allow what a asks.
func (r *role) names(a *authz.Attributes) (n scope.Names) {
	r.once.Do(r.compile)
	for _, rules := range [][]*rbacv1.PolicyRule{r.everywhere, r.byResource[resourceOf(a)], r.ofSubresource(a)} {
		for _, rule := range rules {
			switch {
			case !hasOrAll(rule.Verbs, a.Verb) || !hasOrAll(rule.APIGroups, a.Group):
			case len(rule.ResourceNames) == 0:
				return scope.Names{All: true}
			default:
				if n.Some == nil {
					n.Some = map[string]bool{}
				}
				for _, name := range rule.ResourceNames {
					n.Some[name] = true
				}
			}
		}
	}
	return n
}

// ofSubresource are the rules for the subresource of any resource.
func (r *role) ofSubresource(a *authz.Attributes) []*rbacv1.PolicyRule {
	if a.Subresource == "" {
		return nil
	}
	return r.bySubresource[a.Subresource]
}
