package allocation

import (
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store"
)

// Services hand out the addresses and ports of services.
type Services struct {
	// Ranges are those of the settings, the primary one first.
	Ranges    []*net.IPNet
	Addresses *Addresses
	NodePorts *NodePorts
	Repair    *Repair
}

// New makes what hands out the addresses of ranges, and the node ports from first to last.
func New(s *store.Cluster, objects Objects, ranges []*net.IPNet, first, last int, random Random, r prometheus.Registerer, clk clock.Clock, log *slog.Logger) *Services {
	var families []corev1.IPFamily
	for _, n := range ranges {
		f := corev1.IPv4Protocol
		if n.IP.To4() == nil {
			f = corev1.IPv6Protocol
		}
		families = append(families, f)
	}
	out := &Services{Ranges: ranges, Addresses: NewAddresses(objects, families, random, clk), NodePorts: NewNodePorts(s, objects, first, last, random)}
	out.Addresses.Metrics = NewMetrics(r)
	out.NodePorts.Metrics = out.Addresses.Metrics
	out.Repair = NewRepair(out.Addresses, out.NodePorts, clk, log)
	return out
}
