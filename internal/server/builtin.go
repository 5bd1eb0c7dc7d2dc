package server

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/uuid"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/access/authn/methods"
	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/access/authz/modes"
	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/api/builtin/core"
	"github.com/kanzen-io/kanzen/internal/api/builtin/rbac"
	"github.com/kanzen-io/kanzen/internal/api/builtin/resource"
	"github.com/kanzen-io/kanzen/internal/controllers/allocation"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/csr"
	"github.com/kanzen-io/kanzen/internal/engine/admission/policy"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/observe/metrics"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
)

// This file makes the dependencies of the built-in kinds.

// deps returns what the built-in kinds need from the rest of the server.
func (b *base) deps(a *modes.Set, authenticators *methods.Set, tokens *serviceaccount.TokenIssuer, services *allocation.Services) builtin.Deps {
	reviews := &authz.Reviews{Authorizer: a, Rules: a.Rules}
	d := builtin.Deps{Gates: b.cfg.Gates(), At: b.cfg.Versions()}
	now := b.process.Clock.Now
	d.Core = core.Deps{
		Now:       now,
		NewUID:    func() types.UID { return types.UID(uuid.NewString()) },
		EventTTL:  b.cfg.EventTTL,
		Objects:   b.objects,
		Addresses: services.Addresses, NodePorts: services.NodePorts,
		CreateToken: tokens.Create,
		ComponentStatuses: func(ctx context.Context) ([]*corev1.ComponentStatus, error) {
			return controlplane.ComponentStatuses(ctx, b.objects.Store)
		},
	}
	pods := podspec.Policy{ForbidPrivileged: !b.cfg.AllowPrivileged}
	d.Core.Pods, d.Apps.Pods, d.Batch.Pods = pods, pods, pods
	access := policy.ParamAccess{Objects: b.objects, Resources: b.objects.ResourcesOf, Authorizer: a}
	d.AdmissionRegistration.MayReadParamKind, d.AdmissionRegistration.MayReadParams = access.MayReadKind, access.MayRead
	d.AdmissionRegistration.Advise = b.cfg.WebhookAdvice
	d.AdmissionRegistration.NotReviews = b.cfg.Gates().Enabled(features.ExcludeAdmissionWebhookVirtualResources)
	d.AdmissionRegistration.Manifests = b.cfg.Gates().Enabled(features.ManifestBasedAdmissionControlConfig)
	d.APIRegistration.Now, d.Certificates.Now, d.Lifecycle.Now, d.Resource.Now = now, now, now, now
	d.Certificates.MaySign = func(ctx context.Context, signer string) bool {
		return csr.MayActFor(ctx, a, request.UserFrom(ctx), "sign", signer)
	}
	d.Certificates.Issued = metrics.Issued(b.metrics.Registry())
	d.Authentication.TokenReview = authenticators.Tokens.ReviewToken
	d.Authentication.SelfSubjectReview = authn.ReviewSelf(b.process.Clock)
	d.Authorization.SubjectAccess = reviews.SubjectAccess
	d.Authorization.LocalSubjectAccess = reviews.LocalSubjectAccess
	d.Authorization.SelfSubjectAccess = reviews.SelfSubjectAccess
	d.Authorization.SelfSubjectRules = reviews.SelfSubjectRules
	d.Resource.NamespaceLabels = func(ctx context.Context, name string) (map[string]string, error) {
		return b.objects.NamespaceLabels(ctx, name)
	}
	claims := resource.Rights{Require: authz.Require(a)}
	d.Resource.MayBind, d.Resource.MayReport = claims.MayBind, claims.MayReport
	if a.Uses("RBAC") {
		d.RBAC = rbac.By(authz.Require(a), a.RBAC.Index)
	}
	return d
}

// chosen returns the choice of --runtime-config.
func (b *base) chosen() (*builtin.Chosen, error) {
	c, err := builtin.Choose(b.cfg.RuntimeConfig)
	if err != nil {
		return nil, fmt.Errorf("--runtime-config: %w", err)
	}
	c.Emulation = builtin.Emulation{Forward: b.cfg.EmulationForward, ForwardAsked: b.cfg.EmulationForwardAsked}
	if c.Removed, err = b.cfg.ServeRemoved(); err != nil {
		return nil, err
	}
	return c, nil
}

// serverAddresses returns the server's address for clients of each network.
func (b *base) serverAddresses() []metav1.ServerAddressByClientCIDR {
	host, err := b.process.Reached()
	if err != nil {
		return nil
	}
	return []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: fmt.Sprintf("%s:%d", host, b.port)}}
}
