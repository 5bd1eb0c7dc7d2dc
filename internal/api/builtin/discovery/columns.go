package discovery

import (
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func endpointSliceTable() *engine.Table {
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	return engine.TableOf(endpointSliceRow,
		cells.Name(),
		cells.String("AddressType", doc["addressType"]),
		cells.String("Ports", doc["ports"]),
		cells.String("Endpoints", doc["endpoints"]),
		cells.Age(),
	)
}

func endpointSliceRow(s *discoveryv1.EndpointSlice) []any {
	var ports, addresses []string
	for _, p := range s.Ports {
		if p.Port != nil {
			ports = append(ports, strconv.Itoa(int(*p.Port)))
		} else {
			ports = append(ports, cells.Deref(p.Name, "*"))
		}
	}
	for _, e := range s.Endpoints {
		addresses = append(addresses, e.Addresses...)
	}
	return []any{
		s.Name, string(s.AddressType), cells.Or(cells.First(3, ports, ","), cells.Unset),
		cells.Or(cells.First(3, addresses, ","), cells.Unset), cells.Since(s.CreationTimestamp),
	}
}
