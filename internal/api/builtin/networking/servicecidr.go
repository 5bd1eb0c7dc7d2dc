package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

func serviceCIDRs(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "servicecidrs", Kind: "ServiceCIDR",
		Versions: engine.Renamed(engine.VersionOf[networkingv1.ServiceCIDR, networkingv1.ServiceCIDRList](v1, nil),
			engine.VersionOf[networkingv1beta1.ServiceCIDR, networkingv1beta1.ServiceCIDRList](networkingv1beta1.SchemeGroupVersion, nil),
		),
		Rules: engine.Typed[*networkingv1.ServiceCIDR]{
			StatusApart:    d.Gates.Enabled(features.ServiceCIDRStatusFieldWiping),
			Validate:       validateServiceCIDR,
			ValidateUpdate: validateServiceCIDRUpdate,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.LoneStatus(engine.Typed[*networkingv1.ServiceCIDR]{
			ValidateUpdate: validateServiceCIDRStatus,
		})},
		Table: serviceCIDRTable(),
	}
}
