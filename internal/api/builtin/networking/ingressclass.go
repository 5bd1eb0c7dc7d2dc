package networking

import (
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func ingressClasses() *engine.Resource {
	return &engine.Resource{
		Plural: "ingressclasses", Kind: "IngressClass",
		Versions: []*engine.Version{engine.VersionOf[networkingv1.IngressClass, networkingv1.IngressClassList](v1, defaultIngressClass)},
		Rules: engine.Typed[*networkingv1.IngressClass]{
			CountsSpec:     true,
			Validate:       validateIngressClass,
			ValidateUpdate: validateIngressClassUpdate,
		}.Rules(),
		Table: ingressClassTable(),
	}
}

func defaultIngressClass(c *networkingv1.IngressClass) {
	if p := c.Spec.Parameters; p != nil {
		rules.DefaultPtr(&p.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
	}
}
