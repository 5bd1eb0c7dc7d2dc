package modes

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/access/authz/abac"
	"github.com/kanzen-io/kanzen/internal/access/authz/node"
	"github.com/kanzen-io/kanzen/internal/request/scope"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Question asks for the objects of a resource for which a request would be allowed.
type Question struct {
	// Attributes are those of the request, without a name.
	authz.Attributes
	Namespaced bool
	// Within are the only namespaces of interest; nil: all.
	Within []string
	// All returns the namespaces there are. It is asked for authorizers that cannot tell what they allow.
	All func(context.Context) ([]string, error)
}

// maxAsked is for how many namespaces an authorizer that cannot tell what it allows is asked.
const maxAsked = 1000

// Scope answers a question: an object is in the set if a list that names it, or one of its namespace, or one of everything would be
// allowed. An error is no denial: something could not be asked.
func (a *Set) Scope(ctx context.Context, q Question) (scope.Set, error) {
	now := a.current.Load()
	if allowed, err := now.allow(ctx, &q.Attributes, q.Namespace, ""); allowed || err != nil {
		return scope.All(), err
	}
	var s scope.Set
	for _, each := range now.scopers {
		s = s.With(each.Scope(&q.Attributes))
	}
	if q.Group == "" && q.Resource == "namespaces" {
		return now.namespaces(ctx, q, s)
	}
	if q.Within != nil {
		s = s.Within(q.Within)
	}
	if now.opaque == nil {
		return s, nil
	}
	if !q.Namespaced {
		names, err := now.named(ctx, &q.Attributes, "", s.Everywhere)
		return scope.Set{Everywhere: names}, err
	}
	within, err := now.asked(ctx, q)
	out := scope.Set{In: map[string]scope.Names{}}
	for n := 0; err == nil && n < len(within); n++ {
		var names scope.Names
		if names, err = now.named(ctx, &q.Attributes, within[n], s.Of(within[n])); !names.Empty() {
			out.In[within[n]] = names
		}
	}
	return out, err
}

// namespaces is Scope for namespaces themselves. A request for one is in it: a role in a namespace can allow it.
func (now *authorizers) namespaces(ctx context.Context, q Question, s scope.Set) (scope.Set, error) {
	some := map[string]bool{}
	for name := range s.Everywhere.Some {
		some[name] = true
	}
	for namespace, names := range s.In {
		if names.Has(namespace) {
			some[namespace] = true
		}
	}
	if now.opaque != nil {
		there, err := now.asked(ctx, q)
		if err != nil {
			return scope.Set{}, err
		}
		clear(some)
		for _, name := range there {
			allowed, err := now.allow(ctx, &q.Attributes, name, name)
			if err != nil {
				return scope.Set{}, err
			}
			if allowed {
				some[name] = true
			}
		}
	}
	return scope.Set{Everywhere: scope.Names{Some: some}}, nil
}

// asked are the namespaces about which to ask.
func (now *authorizers) asked(ctx context.Context, q Question) (within []string, err error) {
	if within = q.Within; within == nil {
		if within, err = q.All(ctx); err != nil {
			return nil, err
		}
	}
	if len(within) > maxAsked {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("what is visible cannot be told: the authorizer %s would have to be asked about %d namespaces, and is about at most %d; name fewer",
			strings.Join(now.opaque, ", "), len(within), maxAsked))
	}
	return within, nil
}

// named asks for all objects of a namespace, or else for those of candidates.
func (now *authorizers) named(ctx context.Context, a *authz.Attributes, namespace string, candidates scope.Names) (scope.Names, error) {
	if allowed, err := now.allow(ctx, a, namespace, ""); allowed || err != nil {
		return scope.Names{All: allowed}, err
	}
	some := map[string]bool{}
	for name := range candidates.Some {
		allowed, err := now.allow(ctx, a, namespace, name)
		if err != nil {
			return scope.Names{}, err
		}
		if allowed {
			some[name] = true
		}
	}
	return scope.Names{Some: some}, nil
}

func (now *authorizers) allow(ctx context.Context, a *authz.Attributes, namespace, name string) (bool, error) {
	one := *a
	one.Namespace, one.Name = namespace, name
	decision, _, err := now.union.Authorize(ctx, &one)
	if decision == authz.Allow {
		return true, nil
	}
	return false, err
}

// changes tells when what Scope says may have changed, except by authorizers that are not Steady.
func (a *Set) changes() *authz.Changes { return &a.RBAC.Index.Changes }

// node returns the name of a user's node, whose rights follow the graph of the mode Node; empty: they do not.
func (a *Set) node(u user.Info) string {
	if a.nodes == nil {
		return ""
	}
	return node.Of(u)
}

// Version is another number after each change of what Scope says of a user.
func (a *Set) Version(u user.Info) uint64 {
	v := a.changes().Version()
	if name := a.node(u); name != "" {
		v = max(v, a.nodes.graph.Version(name))
	}
	return v
}

// Next returns a channel that is closed with the next change of what Scope says of a user.
func (a *Set) Next(u user.Info) <-chan struct{} { return a.changes().Next(a.node(u)) }

// Steady reports whether each authorizer tells of every change.
func (a *Set) Steady() bool { return a.current.Load().opaque == nil }

// Reach returns once Scope reflects, for a user, the log up to a revision.
func (a *Set) Reach(ctx context.Context, u user.Info, log *store.Store, rev int64) error {
	if a.Uses("RBAC") {
		if err := a.RBAC.reach(ctx, log, rev); err != nil {
			return err
		}
	}
	if a.node(u) != "" {
		return a.nodes.reach(ctx, log, rev)
	}
	return nil
}

// ChangedAt is the revision since which Scope has said the same of a user, or a later one. Reach was called before.
func (a *Set) ChangedAt(ctx context.Context, u user.Info) (rev int64, err error) {
	if a.Uses("RBAC") {
		if rev, err = a.RBAC.changed(ctx); err != nil {
			return 0, err
		}
	}
	if name := a.node(u); name != "" {
		rev = max(rev, a.nodes.since(), a.nodes.graph.ChangedAt(name))
	}
	return rev, nil
}

// Follows returns why what a user may see of the objects of a log cannot be followed while it changes. Reach was called before.
func (a *Set) Follows(u user.Info, log *store.Store) error {
	switch {
	case a.node(u) != "" && !a.nodes.in(log):
		return apierrors.NewBadRequest("what is visible of this resource to a node cannot be watched: it is kept in another etcd than what belongs to nodes")
	case a.Uses("RBAC") && !a.RBAC.in(log):
		return apierrors.NewBadRequest("what is visible of this resource cannot be watched: it is kept in another etcd than the roles")
	}
	return nil
}

// All authorizers but webhooks can tell what they allow.
var (
	_ authz.Scoper = (*RBAC)(nil)
	_ authz.Scoper = (*nodeAuthorizer)(nil)
	_ authz.Scoper = abac.Policies(nil)
	_ authz.Scoper = authz.AlwaysAllow{}
	_ authz.Scoper = authz.AlwaysDeny{}
)
