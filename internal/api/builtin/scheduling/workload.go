package scheduling

import (
	"context"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

type workload = schedulingv1alpha3.Workload

func (d Deps) workloads() *engine.Resource {
	return &engine.Resource{
		Plural: "workloads", Kind: "Workload",
		Namespaced: true,
		Hub:        v1alpha3,
		Stored:     &engine.Stored{GroupVersion: v1beta1},
		Versions: betaFirst(
			engine.VersionOf[workload, schedulingv1alpha3.WorkloadList](v1alpha3, nil),
			engine.VersionOf[schedulingv1beta1.Workload, schedulingv1beta1.WorkloadList](v1beta1, nil),
		),
		Rules: engine.Typed[*workload]{
			Validate:             d.validateWorkload,
			ValidateUpdate:       d.validateWorkloadUpdate,
			NeedsResourceVersion: true,
		}.Rules(),
		Table: workloadTable(),
	}
}

// betaFirst returns the versions of a kind, the preferred one first.
func betaFirst(alpha, beta *engine.Version) []*engine.Version {
	v := engine.Renamed(alpha, beta)
	v[0], v[1] = v[1], v[0]
	return v
}

func (d Deps) validateWorkload(ctx context.Context, w *workload) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.ObjectMeta(&w.ObjectMeta, true, rules.Subdomain))
	templates(&w.Spec, e)
	e.Add(declared(schedulingv1alpha3.Validate_Workload(ctx, d.create(), nil, w, nil)))
	return e.List()
}

func (d Deps) validateWorkloadUpdate(ctx context.Context, w, old *workload) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.ObjectMetaUpdate(&w.ObjectMeta, &old.ObjectMeta))
	templates(&w.Spec, e)
	e.Add(declared(schedulingv1alpha3.Validate_Workload(ctx, d.update(), nil, w, old)))
	return e.List()
}
