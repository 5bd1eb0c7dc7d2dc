package scheduling

import (
	"context"
	"slices"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

type podGroup = schedulingv1alpha3.PodGroup

func (d Deps) podGroups() *engine.Resource {
	return &engine.Resource{
		Plural: "podgroups", Kind: "PodGroup",
		Namespaced: true,
		Hub:        v1alpha3,
		Stored:     &engine.Stored{GroupVersion: v1beta1},
		Versions: betaFirst(
			engine.VersionOf[podGroup, schedulingv1alpha3.PodGroupList](v1alpha3, d.defaultPodGroup),
			engine.VersionOf[schedulingv1beta1.PodGroup, schedulingv1beta1.PodGroupList](v1beta1, nil),
		),
		Rules: engine.Typed[*podGroup]{
			StatusApart:          true,
			Validate:             d.validatePodGroup,
			ValidateUpdate:       d.validatePodGroupUpdate,
			NeedsResourceVersion: true,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.LoneStatus(engine.Typed[*podGroup]{
			ValidateUpdate:       d.validatePodGroupStatus,
			NeedsResourceVersion: true,
		})},
		Table: podGroupTable(),
	}
}

func (d Deps) defaultPodGroup(g *podGroup) {
	d.defaultPreemption(&g.Spec.PreemptionPolicy)
	if g.Spec.DisruptionMode == nil {
		g.Spec.DisruptionMode = &schedulingv1alpha3.DisruptionMode{Single: &schedulingv1alpha3.SingleDisruptionMode{}}
	}
}

func (d Deps) defaultPreemption(p **schedulingv1alpha3.PreemptionPolicy) {
	if d.Gates.Enabled(features.PodGroupPreemptionPolicy) {
		rules.DefaultPtr(p, schedulingv1alpha3.PreemptLowerPriority)
	}
}

func (d Deps) validatePodGroup(ctx context.Context, g *podGroup) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.ObjectMeta(&g.ObjectMeta, true, rules.Subdomain))
	if g.Spec.ParentCompositePodGroupName != nil && g.Spec.WorkloadRef == nil {
		e.Field("workloadRef").Required("must be set when parentCompositePodGroupName is set")
	}
	e.Add(declared(schedulingv1alpha3.Validate_PodGroup(ctx, d.create(), nil, g, nil)))
	return e.List()
}

func (d Deps) validatePodGroupUpdate(ctx context.Context, g, old *podGroup) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&g.ObjectMeta, &old.ObjectMeta)
	return append(errs, declared(schedulingv1alpha3.Validate_PodGroup(ctx, d.update(), nil, g, old))...)
}

func (d Deps) validatePodGroupStatus(ctx context.Context, g, old *podGroup) field.ErrorList {
	e := rules.At(field.NewPath("status"))
	e.Add(rules.ObjectMetaUpdate(&g.ObjectMeta, &old.ObjectMeta))
	e.Add(metavalidation.ValidateConditions(g.Status.Conditions, e.Path().Child("conditions")))
	for i, s := range g.Status.ResourceClaimStatuses {
		if !slices.ContainsFunc(g.Spec.ResourceClaims, func(c schedulingv1alpha3.PodGroupResourceClaim) bool { return c.Name == s.Name }) {
			e.Field("resourceClaimStatuses").Item(i).Field("name").Invalid(s.Name, "must match the name of an entry in `spec.resourceClaims`")
		}
	}
	e.Add(declared(schedulingv1alpha3.Validate_PodGroup(ctx, d.update("status"), nil, g, old)))
	return e.List()
}
