// Package node authorizes kubelets: a node may read the objects that its pods use, and little else. The Graph, which
// another component keeps up to date, says which objects belong to a node. The authorizer does not see the content of
// writes; the admission plugin NodeRestriction checks it.
package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/access/authz/rbac"
	"github.com/kanzen-io/kanzen/internal/request/scope"
)

const userPrefix = "system:node:"

// leaseNamespace holds the leases that kubelets renew as heartbeats.
const leaseNamespace = "kube-node-lease"

// Authorizer is the mode Node.
type Authorizer struct {
	// PodCertificates says that PodCertificateRequests are served.
	PodCertificates bool
	// NoAccounts denies the reading of service accounts, which neither tokens for credential providers nor PodCertificateRequests
	// need.
	NoAccounts bool
	// VolumeHealth says that nodes report the health of volumes in the status of their CSINode.
	VolumeHealth bool

	graph *Graph
	ready <-chan struct{}
	rules *rbac.Rules
}

// New creates the authorizer. Requests of nodes wait until ready is closed, because an incomplete graph would deny what
// is allowed. rules apply to resources that are not restricted per node.
func New(graph *Graph, ready <-chan struct{}, rules []rbacv1.PolicyRule) *Authorizer {
	return &Authorizer{graph: graph, ready: ready, rules: rbac.NewRules(rules)}
}

// Authorize has an opinion only on nodes.
func (n *Authorizer) Authorize(ctx context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	name, ok := nodeOf(a.User)
	if !ok {
		return authz.NoOpinion, "", nil
	}
	if name == "" {
		return authz.NoOpinion, fmt.Sprintf("unknown node for user %q", a.User.GetName()), nil
	}
	select {
	case <-n.ready:
	case <-ctx.Done():
		return authz.NoOpinion, "", ctx.Err()
	}
	allowed, reason := n.decide(&asked{Attributes: a, node: name, graph: n.graph})
	if allowed {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, reason, nil
}

// RulesFor returns an error: the permissions of a node cannot be listed.
func (n *Authorizer) RulesFor(u user.Info, _ string) ([]rbacv1.PolicyRule, error) {
	if _, ok := nodeOf(u); ok {
		return nil, authz.IncompleteRules("node")
	}
	return nil, nil
}

// scoped are the kinds of which a node may list single objects.
var scoped = map[string]Kind{"secrets": Secret, "configmaps": ConfigMap, "pods": pod}

// Scope is part of authz.Scoper. Everybody else than a node gets nothing here.
func (n *Authorizer) Scope(a *authz.Attributes) scope.Set {
	name, ok := nodeOf(a.User)
	if !ok || name == "" || !a.IsResource || a.Group != "" {
		return scope.Set{}
	}
	may := func(namespace, object string) bool {
		one := *a
		one.Namespace, one.Name = namespace, object
		allowed, _ := n.decide(&asked{Attributes: &one, node: name, graph: n.graph})
		return allowed
	}
	if a.Resource == "nodes" && may("", name) {
		return scope.Set{Everywhere: scope.Names{Some: map[string]bool{name: true}}}
	}
	s := scope.Set{In: map[string]scope.Names{}}
	kind, ok := scoped[a.Resource]
	if !ok {
		return s
	}
	for _, r := range n.graph.objects(kind, name) {
		if a.Namespace != "" && a.Namespace != r.Namespace || !may(r.Namespace, r.Name) {
			continue
		}
		if s.In[r.Namespace].Some == nil {
			s.In[r.Namespace] = scope.Names{Some: map[string]bool{}}
		}
		s.In[r.Namespace].Some[r.Name] = true
	}
	return s
}

// Of returns the name of a user's node; empty if the user is not a node.
func Of(u user.Info) string {
	name, _ := nodeOf(u)
	return name
}

// nodeOf returns the name of a user's node; ok is false if the user is not a node.
func nodeOf(u user.Info) (name string, ok bool) {
	if u == nil || !strings.HasPrefix(u.GetName(), userPrefix) || !slices.Contains(u.GetGroups(), user.NodesGroup) {
		return "", false
	}
	return u.GetName()[len(userPrefix):], true
}

// decide decides by the resource.
func (n *Authorizer) decide(a *asked) (bool, string) {
	if !a.IsResource {
		return n.rules.Allow(a.Attributes), ""
	}
	switch (schema.GroupResource{Group: a.Group, Resource: a.Resource}) {
	case schema.GroupResource{Resource: "secrets"}:
		return a.readsOne(Secret)
	case schema.GroupResource{Resource: "configmaps"}:
		return a.readsOne(ConfigMap)
	case schema.GroupResource{Resource: "persistentvolumeclaims"}:
		if a.Subresource == "status" {
			if !a.verbIs("update", "patch") {
				return false, "can only get/update/patch this type"
			}
			return a.related(Claim)
		}
		return a.gets(Claim)
	case schema.GroupResource{Resource: "persistentvolumes"}:
		return a.getsVolume()
	case schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}:
		return a.gets(ResourceClaim)
	case schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattachments"}:
		return a.gets(attachment)
	case schema.GroupResource{Resource: "serviceaccounts"}:
		return a.serviceAccount(!n.NoAccounts)
	case schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}:
		return a.lease()
	case schema.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"}:
		return a.csiNode(n.VolumeHealth)
	case schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}:
		return a.resourceSlice()
	case schema.GroupResource{Resource: "nodes"}:
		return a.ownNode()
	case schema.GroupResource{Resource: "pods"}:
		return a.pods()
	case schema.GroupResource{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}:
		if n.PodCertificates {
			return a.podCertificate()
		}
	}
	return n.rules.Allow(a.Attributes), ""
}

// asked is a request of a node.
type asked struct {
	*authz.Attributes
	node  string
	graph *Graph
}

func (a *asked) verbIs(verbs ...string) bool { return slices.Contains(verbs, a.Verb) }

// selects reports whether a field selector restricts the request to objects whose field is the node's name.
func (a *asked) selects(field string) bool {
	s, err := fields.ParseSelector(a.FieldSelector)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(s.Requirements(), func(r fields.Requirement) bool {
		return r.Field == field && r.Operator == selection.Equals && r.Value == a.node
	})
}

// related allows access to objects that the graph connects with the node.
func (a *asked) related(kind Kind) (bool, string) {
	if a.Name == "" {
		return false, "No Object name found"
	}
	if !a.graph.reaches(Ref{kind, a.Namespace, a.Name}, a.node) {
		return false, a.unrelated()
	}
	return true, ""
}

func (a *asked) unrelated() string {
	return fmt.Sprintf("no relationship found between node '%s' and this object", a.node)
}
