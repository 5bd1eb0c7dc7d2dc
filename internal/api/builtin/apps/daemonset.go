package apps

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/equal"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func daemonSets(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "daemonsets", Kind: "DaemonSet",
		ShortNames: []string{"ds"},
		Categories: []string{"all"},
		Namespaced: true,
		Versions:   []*engine.Version{daemonSetVersion()},
		Rules: engine.Typed[*appsv1.DaemonSet]{
			StatusApart: true,
			CountsSpec:  true,
			PrepareCreate: func(_ context.Context, s *appsv1.DaemonSet) {
				setTemplateGeneration(s, max(templateGeneration(s), 1))
				d.Pods.DropDisabledTemplate(&s.Spec.Template, nil)
			},
			PrepareUpdate:  d.prepareDaemonSetUpdate,
			Validate:       d.validateDaemonSet,
			ValidateUpdate: d.validateDaemonSetUpdate,
			Warn:           warnDaemonSet,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*appsv1.DaemonSet]{
			PrepareUpdate: func(_ context.Context, s, old *appsv1.DaemonSet) {
				setTemplateGeneration(s, templateGeneration(old))
			},
			ValidateUpdate: validateDaemonSetStatus,
		})},
		Table: daemonSetTable(),
		// In kube-apiserver's internal version it is a field of the spec.
		HiddenAnnotations: []string{appsv1.DeprecatedTemplateGeneration},
	}
}

func daemonSetVersion() *engine.Version {
	v := engine.VersionOf[appsv1.DaemonSet, appsv1.DaemonSetList](v1, defaultDaemonSet)
	check := checkNumber(appsv1.DeprecatedTemplateGeneration)
	v.ToHub = func(ctx context.Context, obj engine.Object) (engine.Object, error) {
		obj, err := check(ctx, obj)
		if err == nil && obj.GetAnnotations()[appsv1.DeprecatedTemplateGeneration] == "" {
			setAnnotation(obj, appsv1.DeprecatedTemplateGeneration, "0")
		}
		return obj, err
	}
	return v
}

func defaultDaemonSet(s *appsv1.DaemonSet) {
	strategy := &s.Spec.UpdateStrategy
	rules.Default(&strategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if strategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		rules.DefaultPtr(&strategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		rules.DefaultPtr(&strategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		rules.DefaultPtr(&strategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	rules.DefaultPtr(&s.Spec.RevisionHistoryLimit, 10)
	podspec.DefaultTemplate(&s.Spec.Template)
}

func (deps Deps) prepareDaemonSetUpdate(_ context.Context, s, old *appsv1.DaemonSet) {
	deps.Pods.DropDisabledTemplate(&s.Spec.Template, &old.Spec.Template)
	generation := templateGeneration(old)
	if !equal.Objects(&s.Spec.Template, &old.Spec.Template) {
		generation++
	}
	setTemplateGeneration(s, generation)
}

// templateGeneration returns the number of changes of the template. apps/v1 keeps it in an annotation that only the
// server writes.
func templateGeneration(s *appsv1.DaemonSet) int64 {
	n, _ := strconv.ParseInt(s.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	return n
}

func setTemplateGeneration(s *appsv1.DaemonSet, n int64) {
	setAnnotation(s, appsv1.DeprecatedTemplateGeneration, strconv.FormatInt(n, 10))
}

func warnDaemonSet(_ context.Context, s, old *appsv1.DaemonSet) []string {
	path := field.NewPath("spec", "template")
	switch {
	case old == nil:
		return podspec.WarnTemplate(path, &s.Spec.Template, nil)
	case templateGeneration(s) != templateGeneration(old):
		return podspec.WarnTemplate(path, &s.Spec.Template, &old.Spec.Template)
	}
	return nil
}
