package networking

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
)

func serviceCIDRs() *engine.Resource {
	return &engine.Resource{
		Plural: "servicecidrs", Singular: "servicecidr", Kind: "ServiceCIDR",
		Prefix: "servicecidrs",
		Hub:    v1,
		Versions: engine.Renamed(engine.VersionOf[networkingv1.ServiceCIDR, networkingv1.ServiceCIDRList](v1, nil),
			engine.VersionOf[networkingv1beta1.ServiceCIDR, networkingv1beta1.ServiceCIDRList](networkingv1beta1.SchemeGroupVersion, nil),
		),
		Rules: engine.Typed[*networkingv1.ServiceCIDR]{
			PrepareCreate: func(_ context.Context, c *networkingv1.ServiceCIDR) {
				c.Status = networkingv1.ServiceCIDRStatus{}
			},
			PrepareUpdate:  func(_ context.Context, c, old *networkingv1.ServiceCIDR) { c.Status = old.Status },
			Validate:       validateServiceCIDR,
			ValidateUpdate: validateServiceCIDRUpdate,
			Reset:          engine.ResetStatus,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*networkingv1.ServiceCIDR]{
			PrepareUpdate: func(_ context.Context, c, old *networkingv1.ServiceCIDR) {
				c.Spec = old.Spec
				metav1.ResetObjectMetaForStatus(&c.ObjectMeta, &old.ObjectMeta)
			},
			ValidateUpdate: validateServiceCIDRStatus,
			Reset:          engine.ResetSpecAndMetadata,
		})},
		Table: serviceCIDRTable(),
	}
}
