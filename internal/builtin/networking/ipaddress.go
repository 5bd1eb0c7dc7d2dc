package networking

import (
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
)

func ipAddresses() *engine.Resource {
	return &engine.Resource{
		Plural: "ipaddresses", Singular: "ipaddress", Kind: "IPAddress",
		ShortNames: []string{"ip"},
		Prefix:     "ipaddresses",
		Hub:        v1,
		Versions:   []*engine.Version{engine.VersionOf[networkingv1.IPAddress, networkingv1.IPAddressList](v1, nil)},
		Rules: engine.Typed[*networkingv1.IPAddress]{
			Validate:       validateIPAddress,
			ValidateUpdate: validateIPAddressUpdate,
		}.Rules(),
		Table: ipAddressTable(),
	}
}
