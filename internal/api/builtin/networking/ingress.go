package networking

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// classAnnotation contained the class before the field existed.
const classAnnotation = "kubernetes.io/ingress.class"

func ingresses(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "ingresses", Kind: "Ingress",
		ShortNames: []string{"ing"},
		Namespaced: true,
		Prefix:     "ingress",
		Versions:   []*engine.Version{engine.VersionOf[networkingv1.Ingress, networkingv1.IngressList](v1, nil)},
		Rules: engine.Typed[*networkingv1.Ingress]{
			StatusApart:    true,
			CountsSpec:     true,
			Validate:       d.validateIngress,
			ValidateUpdate: d.validateIngressUpdate,
			Warn:           warnIngress,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*networkingv1.Ingress]{
			ValidateUpdate: d.validateIngressStatus,
			Warn:           warnIngressStatus,
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
