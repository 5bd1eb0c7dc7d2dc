//lint:file-ignore SA1019 Endpoints are deprecated for their users, and still served to them.

package core

import (
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func endpointsTable() *engine.Table {
	return engine.TableOf(endpointsRow,
		cells.Name(),
		cells.String("Endpoints", corev1.Endpoints{}.SwaggerDoc()["subsets"]),
		cells.Age(),
	)
}

func endpointsRow(e *corev1.Endpoints) []any {
	text := cells.None
	if len(e.Subsets) > 0 {
		var all []string
		for i := range e.Subsets {
			all = append(all, subsetAddresses(&e.Subsets[i])...)
		}
		text = cells.First(3, all, ",")
	}
	return []any{e.Name, text, cells.Since(e.CreationTimestamp)}
}

// subsetAddresses returns every address with every port, or without one if a headless service has no ports.
func subsetAddresses(s *corev1.EndpointSubset) []string {
	var all []string
	if len(s.Ports) == 0 {
		for _, a := range s.Addresses {
			all = append(all, a.IP)
		}
	}
	for _, p := range s.Ports {
		for _, a := range s.Addresses {
			all = append(all, net.JoinHostPort(a.IP, strconv.Itoa(int(p.Port))))
		}
	}
	return all
}
