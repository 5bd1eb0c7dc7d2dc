package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func podTemplates(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "podtemplates", Kind: "PodTemplate",
		Namespaced:    true,
		ReturnDeleted: true,
		Versions: only(engine.VersionOf[corev1.PodTemplate, corev1.PodTemplateList](v1, func(t *corev1.PodTemplate) {
			podspec.DefaultTemplate(&t.Template)
		})),
		Rules: engine.Typed[*corev1.PodTemplate]{
			PrepareCreate: func(_ context.Context, t *corev1.PodTemplate) {
				t.Generation = 1
				d.Pods.DropDisabledTemplate(&t.Template, nil)
			},
			Validate: func(_ context.Context, t *corev1.PodTemplate) field.ErrorList {
				return append(rules.ObjectMeta(&t.ObjectMeta, true, rules.Subdomain),
					podspec.ValidateTemplate(&t.Template, field.NewPath("template"), podspec.OptionsForTemplate(d.Pods, nil))...)
			},
			PrepareUpdate: func(_ context.Context, t, old *corev1.PodTemplate) {
				d.Pods.DropDisabledTemplate(&t.Template, &old.Template)
				if !apiequality.Semantic.DeepEqual(t.Template, old.Template) {
					t.Generation = old.Generation + 1
				}
			},
			ValidateUpdate: func(_ context.Context, t, old *corev1.PodTemplate) field.ErrorList {
				o := podspec.OptionsForTemplate(d.Pods, &old.Template)
				return append(rules.ObjectMetaUpdate(&t.ObjectMeta, &old.ObjectMeta),
					podspec.ValidateTemplate(&t.Template, field.NewPath("template"), o)...)
			},
			Warn: func(_ context.Context, t, old *corev1.PodTemplate) []string {
				path := field.NewPath("template")
				if old != nil && t.Generation == old.Generation {
					return nil
				}
				return podspec.WarnTemplate(path, &t.Template, nil)
			},
		}.Rules(),
		Table: podTemplateTable(),
	}
}
