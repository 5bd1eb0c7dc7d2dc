package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"

	"github.com/kanzen-io/kanzen/internal/engine"
)

func ipAddresses() *engine.Resource {
	return &engine.Resource{
		Plural: "ipaddresses", Kind: "IPAddress",
		ShortNames: []string{"ip"},
		Versions: engine.Renamed(engine.VersionOf[networkingv1.IPAddress, networkingv1.IPAddressList](v1, nil),
			engine.VersionOf[networkingv1beta1.IPAddress, networkingv1beta1.IPAddressList](networkingv1beta1.SchemeGroupVersion, nil),
		),
		Rules: engine.Typed[*networkingv1.IPAddress]{
			Validate:       validateIPAddress,
			ValidateUpdate: validateIPAddressUpdate,
		}.Rules(),
		Table: ipAddressTable(),
	}
}
