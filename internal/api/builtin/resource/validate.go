package resource

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var (
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")
)

// validator validates the kinds of this group.
type validator struct {
	Deps
	cel *expressions
}

func (v *validator) validateDeviceClass(_ context.Context, c *resourcev1.DeviceClass) field.ErrorList {
	errs := rules.ObjectMetaOfName(&c.ObjectMeta, false, rules.Subdomain)
	return append(errs, v.deviceClass(&c.Spec, &resourcev1.DeviceClassSpec{})...)
}

func (v *validator) validateDeviceClassUpdate(_ context.Context, c, old *resourcev1.DeviceClass) field.ErrorList {
	errs := rules.ObjectMetaOfName(&c.ObjectMeta, false, rules.Subdomain)
	errs = append(errs, rules.ObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta)...)
	return append(errs, v.deviceClass(&c.Spec, &old.Spec)...)
}

func (v *validator) deviceClass(s, old *resourcev1.DeviceClassSpec) field.ErrorList {
	e := rules.At(specPath)
	v.selectors(s.Selectors, apiequality.Semantic.DeepEqual(s.Selectors, old.Selectors), e.Field("selectors"))
	stored := apiequality.Semantic.DeepEqual(s.Config, old.Config)
	list(s.Config, resourcev1.DeviceConfigMaxSize, e.Field("config"), func(c *resourcev1.DeviceClassConfiguration, e rules.Errors) {
		configuration(&c.DeviceConfiguration, stored, e)
	})
	if n := s.ExtendedResourceName; n != nil && !rules.IsExtended(corev1.ResourceName(*n)) {
		e.Field("extendedResourceName").Invalid(*n, "must be a valid extended resource name")
	}
	return e.List()
}

func (v *validator) validateResourceClaim(ctx context.Context, c *resourcev1.ResourceClaim) field.ErrorList {
	e := rules.At(specPath)
	v.adminRequests(ctx, c.Namespace, c.Spec.Devices.Requests, e)
	e.Add(rules.ObjectMeta(&c.ObjectMeta, true, rules.Subdomain))
	v.deviceClaim(&c.Spec.Devices, e.Field("devices"))
	return e.List()
}

func (v *validator) validateResourceClaimUpdate(_ context.Context, c, old *resourcev1.ResourceClaim) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMeta(&c.ObjectMeta, true, rules.Subdomain))
	e.Add(rules.ObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta))
	e.Elsewhere(nil).Unchanged("spec", c.Spec, old.Spec)
	return e.List()
}

func (v *validator) validateResourceClaimTemplate(ctx context.Context, t *resourcev1.ResourceClaimTemplate) field.ErrorList {
	e := rules.At(specPath)
	v.adminRequests(ctx, t.Namespace, t.Spec.Spec.Devices.Requests, e)
	e.Add(rules.ObjectMeta(&t.ObjectMeta, true, rules.Subdomain))
	rules.TemplateMeta(&t.Spec.ObjectMeta, e.Field("metadata"))
	v.deviceClaim(&t.Spec.Spec.Devices, e.Field("spec").Field("devices"))
	return e.List()
}

func (v *validator) validateResourceClaimTemplateUpdate(ctx context.Context, t, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
	errs := rules.ObjectMeta(&t.ObjectMeta, true, rules.Subdomain)
	e := rules.At(specPath)
	rules.TemplateMeta(&t.Spec.ObjectMeta, e.Field("metadata"))
	v.deviceClaim(&t.Spec.Spec.Devices, e.Field("spec").Field("devices"))
	e.Add(rules.ObjectMetaUpdate(&t.ObjectMeta, &old.ObjectMeta))
	e.Elsewhere(nil).Unchanged("spec", t.Spec, old.Spec)
	return append(errs, e.List()...)
}

// adminRequests rejects requests for administrative access outside of labelled namespaces.
func (v *validator) adminRequests(ctx context.Context, namespace string, requests []resourcev1.DeviceRequest, e rules.Errors) {
	for i := range requests {
		if r := requests[i].Exactly; r != nil && r.AdminAccess != nil && *r.AdminAccess {
			v.adminNamespace(ctx, namespace, e.Elsewhere(specPath.Child("devices", "requests").Index(i).Child("adminAccess")))
			return
		}
	}
}

func (v *validator) adminNamespace(ctx context.Context, namespace string, e rules.Errors) {
	if v.NamespaceLabels != nil {
		labels, err := v.NamespaceLabels(ctx, namespace)
		if err != nil {
			e.AddError(field.InternalError(e.Path(), err))
			return
		}
		if labels[resourcev1.DRAAdminNamespaceLabelKey] == "true" {
			return
		}
	}
	e.Forbidden("admin access to devices requires the `" + resourcev1.DRAAdminNamespaceLabelKey + ": true` label on the containing namespace")
}

// requestNames are the requests of a claim, with their subrequests.
type requestNames map[string][]string

func namesOf(c *resourcev1.DeviceClaim) requestNames {
	out := requestNames{}
	for i := range c.Requests {
		r := &c.Requests[i]
		out[r.Name] = nil
		for k := range r.FirstAvailable {
			out[r.Name] = append(out[r.Name], r.FirstAvailable[k].Name)
		}
	}
	return out
}

// check validates a reference to a request ("gpu") or subrequest ("gpu/small").
func (n requestNames) check(ref *string, e rules.Errors) {
	parts := strings.Split(*ref, "/")
	if len(parts) <= 2 {
		for _, p := range parts {
			e.Messages(p, validation.IsDNS1123Label(p))
		}
		if subs, found := n[parts[0]]; found && (len(parts) == 1 || slices.Contains(subs, parts[1])) {
			return
		}
	}
	e.Invalid(*ref, "must name a request of the claim, or request/subrequest")
}

func (v *validator) deviceClaim(c *resourcev1.DeviceClaim, e rules.Errors) {
	names := namesOf(c)
	d := &derived{cel: v.cel, used: constrained(c.Constraints)}
	set(c.Requests, resourcev1.DeviceRequestsMaxSize, e.Field("requests"),
		func(r *resourcev1.DeviceRequest) string { return r.Name },
		func(r *resourcev1.DeviceRequest, e rules.Errors) { v.deviceRequest(r, d, e) })
	list(c.Constraints, resourcev1.DeviceConstraintsMaxSize, e.Field("constraints"), func(c *resourcev1.DeviceConstraint, e rules.Errors) {
		set(c.Requests, resourcev1.DeviceRequestsMaxSize, e.Field("requests"), self, names.check)
		switch {
		case c.MatchAttribute != nil:
			fullName("matchAttribute", string(*c.MatchAttribute), e)
		case c.DistinctAttribute != nil:
			fullName("distinctAttribute", string(*c.DistinctAttribute), e)
		default:
			e.Required("matchAttribute or distinctAttribute")
		}
	})
	list(c.Config, resourcev1.DeviceConfigMaxSize, e.Field("config"), func(c *resourcev1.DeviceClaimConfiguration, e rules.Errors) {
		set(c.Requests, resourcev1.DeviceRequestsMaxSize, e.Field("requests"), self, names.check)
		configuration(&c.DeviceConfiguration, false, e)
	})
	d.checkCost(e)
}

func (v *validator) deviceRequest(r *resourcev1.DeviceRequest, d *derived, e rules.Errors) {
	e.DNSLabel("name", r.Name)
	switch {
	case r.Exactly == nil && len(r.FirstAvailable) == 0:
		e.Required("exactly or firstAvailable")
	case r.Exactly != nil && len(r.FirstAvailable) > 0:
		e.Invalid(nil, "either exactly or firstAvailable")
	case r.Exactly != nil:
		x, at := r.Exactly, e.Field("exactly")
		v.exactRequest(x.DeviceClassName, x.Selectors, x.AllocationMode, x.Count, x.Tolerations, at)
		d.check(x.DerivedAttributes, at, r.Name)
	default:
		set(r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize, e.Field("firstAvailable"),
			func(s *resourcev1.DeviceSubRequest) string { return s.Name },
			func(s *resourcev1.DeviceSubRequest, e rules.Errors) {
				e.DNSLabel("name", s.Name)
				v.exactRequest(s.DeviceClassName, s.Selectors, s.AllocationMode, s.Count, s.Tolerations, e)
				d.check(s.DerivedAttributes, e, r.Name, r.Name+"/"+s.Name)
			})
	}
}

func (v *validator) exactRequest(class string, selectors []resourcev1.DeviceSelector, mode resourcev1.DeviceAllocationMode,
	count int64, tolerations []resourcev1.DeviceToleration, e rules.Errors) {
	if e.Present("deviceClassName", class) {
		e.DNSSubdomain("deviceClassName", class)
	}
	v.selectors(selectors, false, e.Field("selectors"))
	switch mode {
	case resourcev1.DeviceAllocationModeAll:
		if count != 0 {
			e.Field("count").Invalid(count, "must not be set for allocationMode All")
		}
	case resourcev1.DeviceAllocationModeExactCount:
		e.Positive("count", count)
	default:
		rules.OneOf(e, "allocationMode", mode, []resourcev1.DeviceAllocationMode{
			resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount,
		})
	}
	for i := range tolerations {
		toleration(&tolerations[i], e.Field("tolerations").Item(i))
	}
}
