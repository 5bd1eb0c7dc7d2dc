// Package rbac authorizes by roles and bindings. An Index maps each subject to the bindings that name it and the rules
// of their roles, so that a request needs no search. Another component keeps the Index up to date: it reports each
// changed object.
//
// Requests read an immutable table that is replaced whole, and never wait for a change. All bindings to a role share a
// cell that holds its rules, so a changed role touches no binding.
package rbac

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/access/authz"
)

// name identifies a role or binding; the namespace of cluster-scoped kinds is empty.
type name struct{ namespace, name string }

// Index is the roles and bindings of a cluster. Its methods are safe for concurrent use; objects passed to it must not
// change afterwards.
type Index struct {
	subjects atomic.Pointer[table]
	// Changes tells of every change, once requests see it.
	Changes authz.Changes

	mu       sync.Mutex // held by writers
	roles    map[name]*cell
	bindings map[name]*binding
}

// cell holds the current rules of a role, nil while it does not exist. It outlives the role while bindings refer to it.
type cell struct {
	role atomic.Pointer[role]
	refs int // number of bindings; guarded by Index.mu
}

// binding is a RoleBinding or ClusterRoleBinding.
type binding struct {
	name
	ref      rbacv1.RoleRef
	role     *cell // nil if ref is not to a role
	subjects []rbacv1.Subject
}

// grant is one subject of a binding.
type grant struct {
	*binding
	subject *rbacv1.Subject
	reason  atomic.Pointer[string] // set on first use
}

// NewIndex creates an empty index.
func NewIndex() *Index {
	x := &Index{roles: map[name]*cell{}, bindings: map[name]*binding{}}
	x.subjects.Store(&table{})
	return x
}

// SetRole adds or replaces a Role.
func (x *Index) SetRole(r *rbacv1.Role) { x.setRole(name{r.Namespace, r.Name}, r.Rules) }

// SetClusterRole adds or replaces a ClusterRole.
func (x *Index) SetClusterRole(r *rbacv1.ClusterRole) { x.setRole(name{"", r.Name}, r.Rules) }

// DeleteRole removes a Role.
func (x *Index) DeleteRole(namespace, role string) { x.deleteRole(name{namespace, role}) }

// DeleteClusterRole removes a ClusterRole.
func (x *Index) DeleteClusterRole(role string) { x.deleteRole(name{"", role}) }

// SetRoleBinding adds or replaces a RoleBinding.
func (x *Index) SetRoleBinding(b *rbacv1.RoleBinding) {
	x.setBinding(name{b.Namespace, b.Name}, b.RoleRef, b.Subjects)
}

// SetClusterRoleBinding adds or replaces a ClusterRoleBinding.
func (x *Index) SetClusterRoleBinding(b *rbacv1.ClusterRoleBinding) {
	x.setBinding(name{"", b.Name}, b.RoleRef, b.Subjects)
}

// DeleteRoleBinding removes a RoleBinding.
func (x *Index) DeleteRoleBinding(namespace, binding string) {
	x.deleteBinding(name{namespace, binding})
}

// DeleteClusterRoleBinding removes a ClusterRoleBinding.
func (x *Index) DeleteClusterRoleBinding(binding string) { x.deleteBinding(name{"", binding}) }

func (x *Index) setRole(n name, rules []rbacv1.PolicyRule) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cell(n).role.Store(&role{rules: rules})
	x.Changes.Tell()
}

func (x *Index) deleteRole(n name) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.roles[n]; c != nil {
		c.role.Store(nil)
		x.release(n, c)
	}
	x.Changes.Tell()
}

func (x *Index) setBinding(n name, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
	x.mu.Lock()
	defer x.mu.Unlock()
	next := *x.subjects.Load()
	x.unbind(&next, n)
	b := &binding{name: n, ref: ref, subjects: subjects}
	if target, ok := b.target(); ok {
		b.role = x.cell(target)
		b.role.refs++
	}
	for i := range subjects {
		if s, ok := subjectOf(&subjects[i], n.namespace); ok {
			next.add(s, &grant{binding: b, subject: &subjects[i]})
		}
	}
	x.bindings[n] = b
	x.subjects.Store(&next)
	x.Changes.Tell()
}

func (x *Index) deleteBinding(n name) {
	x.mu.Lock()
	defer x.mu.Unlock()
	next := *x.subjects.Load()
	x.unbind(&next, n)
	x.subjects.Store(&next)
	x.Changes.Tell()
}

// unbind removes a binding from the index and a table; x.mu is held.
func (x *Index) unbind(t *table, n name) {
	b := x.bindings[n]
	if b == nil {
		return
	}
	delete(x.bindings, n)
	for i := range b.subjects {
		if s, ok := subjectOf(&b.subjects[i], n.namespace); ok {
			t.remove(s, b)
		}
	}
	if target, ok := b.target(); ok {
		b.role.refs--
		x.release(target, b.role)
	}
}

// cell returns the cell of a role, and creates it if needed; x.mu is held.
func (x *Index) cell(n name) *cell {
	c := x.roles[n]
	if c == nil {
		c = &cell{}
		x.roles[n] = c
	}
	return c
}

// release removes a cell that is no longer used; x.mu is held.
func (x *Index) release(n name, c *cell) {
	if c.refs == 0 && c.role.Load() == nil {
		delete(x.roles, n)
	}
}

// target returns the role that a binding refers to.
func (b *binding) target() (name, bool) { return targetOf(b.ref, b.namespace) }

func targetOf(ref rbacv1.RoleRef, namespace string) (name, bool) {
	switch {
	case ref.Kind == "ClusterRole":
		return name{"", ref.Name}, true
	case ref.Kind == "Role" && namespace != "":
		return name{namespace, ref.Name}, true
	}
	return name{}, false
}

// subjectOf returns the index key of a binding's subject; ok is false for a subject that no user can be.
func subjectOf(s *rbacv1.Subject, namespace string) (subject, bool) {
	switch s.Kind {
	case rbacv1.UserKind:
		return subject{namespace, false, s.Name}, true
	case rbacv1.GroupKind:
		return subject{namespace, true, s.Name}, true
	case rbacv1.ServiceAccountKind:
		of := s.Namespace
		if of == "" {
			of = namespace
		}
		if of == "" {
			return subject{}, false
		}
		return subject{namespace, false, serviceaccount.Username(of, s.Name)}, true
	}
	return subject{}, false
}

// Authorize allows what a rule allows, and otherwise has no opinion.
func (x *Index) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	if a.User == nil {
		return authz.NoOpinion, "", nil
	}
	var unresolved []error
	for g := range x.subjects.Load().of(a.User, a.Namespace) {
		r := g.rules()
		if r == nil {
			unresolved = append(unresolved, g.unresolved())
			continue
		}
		if r.allows(a) {
			return authz.Allow, g.why(), nil
		}
	}
	if len(unresolved) > 0 {
		return authz.NoOpinion, fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(unresolved)), nil
	}
	return authz.NoOpinion, "", nil
}

// RulesFor returns the rules of a user in a namespace, cluster-wide ones first, each in the order of the bindings'
// names. With an error, which lists missing roles, it returns the rules that exist.
func (x *Index) RulesFor(u user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	seen := map[*binding]bool{}
	var found []*binding
	for g := range x.subjects.Load().of(u, namespace) {
		if !seen[g.binding] {
			seen[g.binding] = true
			found = append(found, g.binding)
		}
	}
	slices.SortFunc(found, func(a, b *binding) int {
		if c := strings.Compare(a.namespace, b.namespace); c != 0 {
			return c
		}
		return strings.Compare(a.name.name, b.name.name)
	})
	var rules []rbacv1.PolicyRule
	var unresolved []error
	for _, b := range found {
		if r := b.rules(); r != nil {
			rules = append(rules, r.rules...)
		} else {
			unresolved = append(unresolved, b.unresolved())
		}
	}
	return rules, utilerrors.NewAggregate(unresolved)
}

// RoleRules returns the rules of the role that a binding in a namespace (empty for a cluster role binding) refers to. A
// missing role is a NotFound error.
func (x *Index) RoleRules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	b := &binding{name: name{namespace, ""}, ref: ref}
	if target, ok := b.target(); ok {
		x.mu.Lock()
		b.role = x.roles[target]
		x.mu.Unlock()
	}
	if r := b.rules(); r != nil {
		return r.rules, nil
	}
	return nil, b.unresolved()
}

func (b *binding) rules() *role {
	if b.role == nil {
		return nil
	}
	return b.role.role.Load()
}

// unresolved returns the error for a binding whose role is missing.
func (b *binding) unresolved() error {
	target, ok := b.target()
	if !ok {
		return fmt.Errorf("unsupported role reference kind: %q", b.ref.Kind)
	}
	resource := "clusterrole" // singular, as clients expect
	if target.namespace != "" {
		resource = "role"
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}, b.ref.Name)
}

// why returns the reason of a permission, in the form that audit log queries use.
func (g *grant) why() string {
	if s := g.reason.Load(); s != nil {
		return *s
	}
	kind, of := "ClusterRoleBinding", g.binding.name.name
	if g.namespace != "" {
		kind, of = "RoleBinding", of+"/"+g.namespace
	}
	who := g.subject.Name
	if g.subject.Kind == rbacv1.ServiceAccountKind {
		namespace := g.subject.Namespace
		if namespace == "" {
			namespace = g.namespace
		}
		who += "/" + namespace
	}
	s := fmt.Sprintf("RBAC: allowed by %s %q of %s %q to %s %q", kind, of, g.ref.Kind, g.ref.Name, g.subject.Kind, who)
	g.reason.Store(&s)
	return s
}
