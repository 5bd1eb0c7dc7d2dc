package core

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func resourceQuotas() *engine.Resource {
	return &engine.Resource{
		Plural: "resourcequotas", Kind: "ResourceQuota",
		ShortNames:    []string{"quota"},
		Namespaced:    true,
		ReturnDeleted: true,
		Versions:      only(engine.VersionOf[corev1.ResourceQuota, corev1.ResourceQuotaList](v1, defaultResourceQuota)),
		Rules: engine.Typed[*corev1.ResourceQuota]{
			StatusApart:    true,
			Validate:       validateQuota,
			Warn:           warnQuota,
			ValidateUpdate: validateQuotaUpdate,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*corev1.ResourceQuota]{
			ValidateUpdate: validateQuotaStatus,
		})},
		Table: resourceQuotaTable(),
	}
}

func defaultResourceQuota(q *corev1.ResourceQuota) {
	rules.DefaultResources(q.Spec.Hard, q.Status.Hard, q.Status.Used)
}

func validateQuota(_ context.Context, q *corev1.ResourceQuota) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMeta(&q.ObjectMeta, true, rules.Subdomain))
	quotaSpec(&q.Spec, e.Field("spec"))
	quotaStatus(&q.Status, e.Field("status"))
	return e.List()
}

func validateQuotaUpdate(_ context.Context, q, old *corev1.ResourceQuota) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMetaUpdate(&q.ObjectMeta, &old.ObjectMeta))
	quotaSpec(&q.Spec, e.Field("spec"))
	if !sameScopes(q.Spec.Scopes, old.Spec.Scopes) {
		e.Field("spec").Field("scopes").Invalid(q.Spec.Scopes, "field is immutable")
	}
	return e.List()
}

func validateQuotaStatus(_ context.Context, q, old *corev1.ResourceQuota) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMetaUpdate(&q.ObjectMeta, &old.ObjectMeta))
	e.Add(rules.NeedsResourceVersion(&q.ObjectMeta))
	quotaStatus(&q.Status, e.Field("status"))
	return e.List()
}

// sameScopes reports whether two lists are the same set.
func sameScopes(a, b []corev1.ResourceQuotaScope) bool {
	within := func(a, b []corev1.ResourceQuotaScope) bool {
		return !slices.ContainsFunc(a, func(s corev1.ResourceQuotaScope) bool { return !slices.Contains(b, s) })
	}
	return within(a, b) && within(b, a)
}

func quotaStatus(s *corev1.ResourceQuotaStatus, e rules.Errors) {
	quotaAmounts(s.Hard, e.Field("hard"))
	quotaAmounts(s.Used, e.Field("used"))
}

func quotaAmounts(list corev1.ResourceList, e rules.Errors) {
	for name, q := range list {
		at := e.Key(string(name))
		at.QuotaResourceName(name)
		at.Quantity(name, q)
	}
}

// scopeResources are the resources that can be counted within a scope.
var (
	podCounts  = []corev1.ResourceName{corev1.ResourcePods}
	podAmounts = []corev1.ResourceName{
		corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	}
	claimAmounts   = []corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage}
	scopeResources = map[corev1.ResourceQuotaScope][]corev1.ResourceName{
		corev1.ResourceQuotaScopeTerminating:               podAmounts,
		corev1.ResourceQuotaScopeNotTerminating:            podAmounts,
		corev1.ResourceQuotaScopeBestEffort:                podCounts,
		corev1.ResourceQuotaScopeNotBestEffort:             podAmounts,
		corev1.ResourceQuotaScopePriorityClass:             podAmounts,
		corev1.ResourceQuotaScopeCrossNamespacePodAffinity: podAmounts,
		corev1.ResourceQuotaScopeVolumeAttributesClass:     claimAmounts,
	}
)

func quotaSpec(s *corev1.ResourceQuotaSpec, e rules.Errors) {
	quotaAmounts(s.Hard, e.Field("hard"))
	quotaScopes(s, s.Scopes, e.Field("scopes"))
	if s.ScopeSelector == nil {
		return
	}
	at := e.Field("scopeSelector").Field("matchExpressions")
	var scopes []corev1.ResourceQuotaScope
	for i := range s.ScopeSelector.MatchExpressions {
		r := &s.ScopeSelector.MatchExpressions[i]
		scopes = append(scopes, r.ScopeName)
		scopeRequirement(s, r, at)
	}
	conflictingScopes(scopes, at)
}

func quotaScopes(s *corev1.ResourceQuotaSpec, scopes []corev1.ResourceQuotaScope, e rules.Errors) {
	for _, scope := range scopes {
		if scopeResources[scope] == nil {
			e.Invalid(scopes, "unsupported scope")
		}
		scopeOfResources(s, scope, e)
	}
	conflictingScopes(scopes, e)
}

// scopeOfResources reports resources that cannot be counted within a scope.
func scopeOfResources(s *corev1.ResourceQuotaSpec, scope corev1.ResourceQuotaScope, e rules.Errors) {
	counted := scopeResources[scope]
	if counted == nil {
		return
	}
	for name := range s.Hard {
		if rules.IsQuotaStandard(name) && !slices.Contains(counted, name) {
			e.Invalid(scope, "unsupported scope for "+string(name))
		}
	}
}

func conflictingScopes(scopes []corev1.ResourceQuotaScope, e rules.Errors) {
	for _, pair := range [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if slices.Contains(scopes, pair[0]) && slices.Contains(scopes, pair[1]) {
			e.Invalid(scopes, "conflicting scopes")
		}
	}
}

// scopeRequirement reports all errors at one path.
func scopeRequirement(s *corev1.ResourceQuotaSpec, r *corev1.ScopedResourceSelectorRequirement, e rules.Errors) {
	if scopeResources[r.ScopeName] == nil {
		e.Field("scopeName").Invalid(r.ScopeName, "unsupported scope")
	}
	scopeOfResources(s, r.ScopeName, e)
	switch r.ScopeName {
	case corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating,
		corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		if r.Operator != corev1.ScopeSelectorOpExists {
			e.Field("operator").Invalid(r.Operator, "must be Exists for a scope without values")
		}
	}
	switch r.Operator {
	case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
		if len(r.Values) == 0 {
			e.Field("values").Required("must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
		}
	case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
		if len(r.Values) != 0 {
			e.Field("values").Invalid(r.Values, "operators Exists and DoesNotExist have no values")
		}
	default:
		e.Field("operator").Invalid(r.Operator, "not a valid selector operator")
	}
}

// warnQuota warns about new quotas that allow more requests than limits.
func warnQuota(_ context.Context, q, old *corev1.ResourceQuota) []string {
	if old != nil {
		return nil
	}
	var out []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage} {
		request, requested := q.Spec.Hard["requests."+name]
		if !requested && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) {
			request, requested = q.Spec.Hard[name]
		}
		limit, limited := q.Spec.Hard["limits."+name]
		if requested && limited && request.Cmp(limit) > 0 {
			out = append(out, fmt.Sprintf("requests of %s (%s) should be less than limits.%s (%s)", name, request.String(), name, limit.String()))
		}
	}
	return out
}
