// Package discovery is the API group discovery.k8s.io/v1: endpoint slices.
package discovery

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/equal"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var v1 = discoveryv1.SchemeGroupVersion

// Deps are what the resources need of the server.
type Deps struct {
	// Gates says which features are on.
	Gates features.Set
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	return engine.Kinds(endpointSlices(d))
}

func endpointSlices(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "endpointslices", Kind: "EndpointSlice",
		Namespaced: true,
		Versions:   []*engine.Version{engine.VersionOf[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](v1, defaultEndpointSlice)},
		Rules: engine.Typed[*discoveryv1.EndpointSlice]{
			PrepareCreate: func(_ context.Context, s *discoveryv1.EndpointSlice) {
				s.Generation = 1
				dropTopology(s, nil)
			},
			PrepareUpdate:  prepareUpdate,
			Validate:       d.validate,
			ValidateUpdate: d.validateUpdate,
			Warn:           warn,
		}.Rules(),
		Table: endpointSliceTable(),
	}
}

func defaultEndpointSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		rules.DefaultPtr(&s.Ports[i].Name, "")
		rules.DefaultPtr(&s.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

// prepareUpdate increments the generation after a change of anything except metadata, or of labels, which name the
// slice's service.
func prepareUpdate(_ context.Context, s, old *discoveryv1.EndpointSlice) {
	if s.AddressType != old.AddressType ||
		!equal.Objects(&s.Endpoints, &old.Endpoints) ||
		!equal.Objects(&s.Ports, &old.Ports) ||
		!maps.Equal(s.Labels, old.Labels) {
		s.Generation = old.Generation + 1
	}
	dropTopology(s, old)
}

// dropTopology drops the topology map of earlier versions. If it named the node of an endpoint that old has, the name
// moves to its own field.
func dropTopology(s, old *discoveryv1.EndpointSlice) {
	known := sets.New[string]()
	if old != nil {
		if equal.Objects(&old.Endpoints, &s.Endpoints) {
			return
		}
		for i := range old.Endpoints {
			if name := old.Endpoints[i].DeprecatedTopology[corev1.LabelHostname]; name != "" {
				known.Insert(name)
			}
		}
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		name, found := e.DeprecatedTopology[corev1.LabelHostname]
		if e.NodeName == nil && found && known.Has(name) && len(rules.Subdomain(name, false)) == 0 {
			e.NodeName = &name
		}
		e.DeprecatedTopology = nil
	}
}

func warn(_ context.Context, s, old *discoveryv1.EndpointSlice) []string {
	var out []string
	if old == nil && s.AddressType == discoveryv1.AddressTypeFQDN {
		out = append(out, "spec.addressType: FQDN endpoints are deprecated")
	}
	switch s.Labels[discoveryv1.LabelManagedBy] {
	case "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io":
		// Their addresses are copied from pods and endpoints.
		return out
	}
	for i := range s.Endpoints {
		for k, address := range s.Endpoints[i].Addresses {
			if len(validation.GetWarningsForIP(nil, address)) > 0 { // seldom; only then it is worth a path
				out = append(out, validation.GetWarningsForIP(field.NewPath("endpoints").Index(i).Child("addresses").Index(k), address)...)
			}
		}
	}
	return out
}
