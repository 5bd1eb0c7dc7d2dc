package networking

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// classAnnotation contained the class before the field existed.
const classAnnotation = "kubernetes.io/ingress.class"

func ingresses(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "ingresses", Singular: "ingress", Kind: "Ingress",
		ShortNames: []string{"ing"},
		Namespaced: true,
		Prefix:     "ingress",
		Hub:        v1,
		Versions:   []*engine.Version{engine.VersionOf[networkingv1.Ingress, networkingv1.IngressList](v1, nil)},
		Rules: engine.Typed[*networkingv1.Ingress]{
			PrepareCreate: func(_ context.Context, i *networkingv1.Ingress) {
				i.Status = networkingv1.IngressStatus{}
				i.Generation = 1
			},
			PrepareUpdate: func(_ context.Context, i, old *networkingv1.Ingress) {
				i.Status = old.Status
				rules.RaiseGeneration(&i.ObjectMeta, &old.ObjectMeta, i.Spec, old.Spec)
			},
			Validate:       d.validateIngress,
			ValidateUpdate: d.validateIngressUpdate,
			Warn:           warnIngress,
			Reset:          engine.ResetStatus,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*networkingv1.Ingress]{
			PrepareUpdate:  func(_ context.Context, i, old *networkingv1.Ingress) { i.Spec = old.Spec },
			ValidateUpdate: d.validateIngressStatus,
			Warn:           warnIngressStatus,
			Reset:          engine.ResetSpec,
		})},
		Table: ingressTable(),
	}
}

func warnIngress(_ context.Context, i, old *networkingv1.Ingress) []string {
	if _, found := i.Annotations[classAnnotation]; old == nil && found && i.Spec.IngressClassName == nil {
		return []string{"annotation " + classAnnotation + " is deprecated, use spec.ingressClassName"}
	}
	return nil
}

func warnIngressStatus(_ context.Context, i, _ *networkingv1.Ingress) []string {
	var out []string
	for n, in := range i.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			out = append(out, validation.GetWarningsForIP(statusPath.Child("loadBalancer", "ingress").Index(n), in.IP)...)
		}
	}
	return out
}
