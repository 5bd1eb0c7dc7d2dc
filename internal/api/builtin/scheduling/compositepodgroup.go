package scheduling

import (
	"context"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

type compositePodGroup = schedulingv1alpha3.CompositePodGroup

func (d Deps) compositePodGroups() *engine.Resource {
	return &engine.Resource{
		Plural: "compositepodgroups", Kind: "CompositePodGroup",
		Namespaced: true,
		Versions: []*engine.Version{engine.VersionOf[compositePodGroup, schedulingv1alpha3.CompositePodGroupList](
			v1alpha3, d.defaultCompositePodGroup)},
		Rules: engine.Typed[*compositePodGroup]{
			StatusApart:          true,
			Validate:             d.validateCompositePodGroup,
			ValidateUpdate:       d.validateCompositePodGroupUpdate,
			NeedsResourceVersion: true,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.LoneStatus(engine.Typed[*compositePodGroup]{
			ValidateUpdate:       d.validateCompositePodGroupStatus,
			NeedsResourceVersion: true,
		})},
		Table: compositePodGroupTable(),
	}
}

func (d Deps) defaultCompositePodGroup(g *compositePodGroup) {
	d.defaultPreemption(&g.Spec.PreemptionPolicy)
	if g.Spec.DisruptionMode == nil {
		g.Spec.DisruptionMode = &schedulingv1alpha3.CompositeDisruptionMode{Single: &schedulingv1alpha3.SingleCompositeDisruptionMode{}}
	}
}

func (d Deps) validateCompositePodGroup(ctx context.Context, g *compositePodGroup) field.ErrorList {
	errs := rules.ObjectMeta(&g.ObjectMeta, true, rules.Subdomain)
	return append(errs, declared(schedulingv1alpha3.Validate_CompositePodGroup(ctx, d.create(), nil, g, nil))...)
}

func (d Deps) validateCompositePodGroupUpdate(ctx context.Context, g, old *compositePodGroup) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&g.ObjectMeta, &old.ObjectMeta)
	return append(errs, declared(schedulingv1alpha3.Validate_CompositePodGroup(ctx, d.update(), nil, g, old))...)
}

func (d Deps) validateCompositePodGroupStatus(ctx context.Context, g, old *compositePodGroup) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&g.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, metavalidation.ValidateConditions(g.Status.Conditions, field.NewPath("status", "conditions"))...)
	return append(errs, declared(schedulingv1alpha3.Validate_CompositePodGroup(ctx, d.update("status"), nil, g, old))...)
}
