package server

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/uuid"

	"github.com/kanzen-io/kanzen/internal/aggregator"
	"github.com/kanzen-io/kanzen/internal/authn"
	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/builtin"
	"github.com/kanzen-io/kanzen/internal/builtin/core"
	"github.com/kanzen-io/kanzen/internal/request"
)

// This file makes the parts that New puts together out of the Config.

// proxyHeaders are the names by which a front proxy tells of its users.
func (s *Server) proxyHeaders() authn.HeaderNames {
	if s.cfg.RequestHeaderCAFile == "" {
		return authn.StandardHeaders()
	}
	return authn.HeaderNames{
		Username: s.cfg.RequestHeaderUserHeaders, UID: s.cfg.RequestHeaderUIDHeaders,
		Group: s.cfg.RequestHeaderGroupHeaders, ExtraPrefix: s.cfg.RequestHeaderExtraPrefixes,
	}
}

// deps is what the built-in kinds need from the rest of the server.
func (s *Server) deps(a authz.Authorizer) builtin.Deps {
	reviews := &authz.Reviews{Authorizer: a, Rules: s.authz.rules}
	var d builtin.Deps
	now := s.clock.Now
	d.Core = core.Deps{
		Now:       now,
		NewUID:    func() types.UID { return types.UID(uuid.NewString()) },
		EventTTL:  s.cfg.EventTTL,
		Objects:   s.objects,
		Addresses: s.addresses, NodePorts: s.nodePorts,
		ComponentStatuses: s.componentStatuses, CreateToken: s.tokenIssuer().Create,
	}
	access := paramAccess{s, a}
	d.AdmissionRegistration.MayReadParamKind, d.AdmissionRegistration.MayReadParams = access.mayReadKind, access.mayRead
	d.APIRegistration.Now, d.Certificates.Now, d.Resource.Now = now, now, now
	d.Authentication.TokenReview = s.authn.tokens.ReviewToken
	d.Authentication.SelfSubjectReview = authn.ReviewSelf(s.clock)
	d.Authorization.SubjectAccess = reviews.SubjectAccess
	d.Authorization.LocalSubjectAccess = reviews.LocalSubjectAccess
	d.Authorization.SelfSubjectAccess = reviews.SelfSubjectAccess
	d.Authorization.SelfSubjectRules = reviews.SelfSubjectRules
	d.Resource.NamespaceLabels = func(ctx context.Context, name string) (map[string]string, error) {
		ns, err := s.objects.Namespace(ctx, name)
		if err != nil {
			return nil, err
		}
		return ns.Labels, nil
	}
	may := func(ctx context.Context, verb, group, resource, sub, namespace, name string) error {
		return authorizeWith(a)(ctx, &request.Info{IsResource: true, Verb: verb, Group: group, Version: "*",
			Resource: resource, Subresource: sub, Namespace: namespace, Name: name})
	}
	claims := func(ctx context.Context, verb, sub, name string) error {
		i := request.InfoFrom(ctx)
		if i == nil {
			return nil // the server itself
		}
		return may(ctx, verb, "resource.k8s.io", "resourceclaims", sub, i.Namespace, name)
	}
	d.Resource.MayBind = func(ctx context.Context) error {
		i := request.InfoFrom(ctx)
		if i == nil {
			return nil
		}
		return claims(ctx, i.Verb, "binding", "")
	}
	d.Resource.MayReport = func(ctx context.Context, driver, node string) error {
		i := request.InfoFrom(ctx)
		if i == nil {
			return nil
		}
		prefix := "arbitrary-node:"
		if node != "" {
			prefix = "associated-node:"
		}
		return claims(ctx, prefix+i.Verb, "driver", driver)
	}
	if s.authz.uses("RBAC") {
		d.RBAC.MayEscalate = func(ctx context.Context, resource, namespace, name string) bool {
			return may(ctx, "escalate", rbacv1.GroupName, resource, "", namespace, name) == nil
		}
		d.RBAC.MayBind = func(ctx context.Context, ref rbacv1.RoleRef, namespace string) bool {
			resource := map[string]string{"ClusterRole": "clusterroles", "Role": "roles"}[ref.Kind]
			return may(ctx, "bind", ref.APIGroup, resource, "", namespace, ref.Name) == nil
		}
		d.RBAC.ConfirmNoEscalation = func(ctx context.Context, namespace string, rules []rbacv1.PolicyRule) error {
			return s.authz.rbac.index.ConfirmNoEscalation(ctx, request.UserFrom(ctx), namespace, rules)
		}
		d.RBAC.RulesOf = func(_ context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
			return s.authz.rbac.index.RoleRules(ref, namespace)
		}
	}
	return d
}

// serverAddresses are where clients in a network find the server.
func (s *Server) serverAddresses() []metav1.ServerAddressByClientCIDR {
	host := s.cfg.ExternalHostname
	if host == "" {
		ip, err := s.cfg.Advertise()
		if err != nil {
			return nil
		}
		host = ip.String()
	}
	return []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: fmt.Sprintf("%s:%d", host, s.port())}}
}

// retryAfter is closed when clients are to go elsewhere; nil if they never are.
func (s *Server) retryAfter() <-chan struct{} {
	if s.cfg.ShutdownRetryAfter {
		return s.gone
	}
	return nil
}

// availability keeps a condition of APIServices.
func (s *Server) availability() *aggregator.Availability {
	return &aggregator.Availability{
		APIServices: s.builtin("apiregistration.k8s.io", "apiservices"),
		Services:    s.builtin("", "services"),
		Clock:       s.clock, Log: s.log,
	}
}
