package allocation

import (
	"context"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Metrics are the metrics of allocation, under kube-apiserver's names. Nil measures nothing.
type Metrics struct {
	addresses, addressErrors *series.CounterVec // by cidr and scope
	seconds                  *histogram.Vec
	ports, portErrors        *series.CounterVec // by scope
	repairs, portRepairs     prometheus.Counter // that failed
	portFaults               *series.CounterVec // that repairs found, by type
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	const ips, ports = "kube_apiserver_clusterip_allocator_", "kube_apiserver_nodeport_allocator_"
	m := &Metrics{
		addresses:     series.NewCounterVec(prometheus.CounterOpts{Name: ips + "allocation_total", Help: "Cluster IPs allocated."}, []string{"cidr", "scope"}),
		addressErrors: series.NewCounterVec(prometheus.CounterOpts{Name: ips + "allocation_errors_total", Help: "Cluster IPs that could not be allocated."}, []string{"cidr", "scope"}),
		seconds: histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{Name: ips + "allocation_duration_seconds", Help: "How long allocating a cluster IP took.",
			Buckets: prometheus.DefBuckets}), []string{"cidr"}),
		ports:       series.NewCounterVec(prometheus.CounterOpts{Name: ports + "allocation_total", Help: "Node ports allocated."}, []string{"scope"}),
		portErrors:  series.NewCounterVec(prometheus.CounterOpts{Name: ports + "allocation_errors_total", Help: "Node ports that could not be allocated."}, []string{"scope"}),
		repairs:     prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_clusterip_repair_reconcile_errors_total", Help: "Repairs of cluster IPs that failed."}),
		portRepairs: prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_nodeport_repair_reconcile_errors_total", Help: "Repairs of node ports that failed."}),
		portFaults:  series.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_nodeport_repair_port_errors_total", Help: "Node ports that a repair found not in order."}, []string{"type"}),
	}
	r.MustRegister(m.addresses, m.addressErrors, m.seconds, m.ports, m.portErrors, m.repairs, m.portRepairs, m.portFaults)
	return m
}

// scope says whether a client asked for something in particular.
func scope(particular bool) string {
	if particular {
		return "static"
	}
	return "dynamic"
}

// address measures an allocation from a range that began at a time.
func (m *Metrics) address(cidr netip.Prefix, particular bool, began time.Time, err error) {
	if m == nil {
		return
	}
	m.seconds.WithLabelValues(cidr.String()).Observe(time.Since(began).Seconds())
	of := m.addresses
	if err != nil {
		of = m.addressErrors
	}
	of.WithLabelValues(cidr.String(), scope(particular)).Inc()
}

// port measures the allocation of a port.
func (m *Metrics) port(particular bool, err error) {
	if m == nil {
		return
	}
	of := m.ports
	if err != nil {
		of = m.portErrors
	}
	of.WithLabelValues(scope(particular)).Inc()
}

// repaired counts repairs that failed.
func (m *Metrics) repaired(addresses, ports error) {
	if m == nil {
		return
	}
	if addresses != nil {
		m.repairs.Inc()
	}
	if ports != nil {
		m.portRepairs.Inc()
	}
}

// portFaults are kube-apiserver's names of what a repair of node ports finds, by the reasons of the events.
var portFaults = map[string]string{"PortOutOfRange": "outOfRange", "PortAlreadyAllocated": "duplicate", "PortNotAllocated": "repair"}

// found counts what a repair of node ports has found.
func (m *Metrics) found(report portReport) {
	if m == nil {
		return
	}
	for _, f := range report.findings {
		m.portFaults.WithLabelValues(portFaults[f.reason]).Inc()
	}
	for range report.freed {
		m.portFaults.WithLabelValues("leak").Inc()
	}
}

// Collector tells how much of the ranges is allocated, when metrics are requested.
type Collector struct {
	Addresses *Addresses
	NodePorts *NodePorts
}

// The descriptions of what a Collector tells. They do not change.
var (
	allocatedIPs   = prometheus.NewDesc("kube_apiserver_clusterip_allocator_allocated_ips", "Cluster IPs of a range that are allocated.", []string{"cidr"}, nil)
	availableIPs   = prometheus.NewDesc("kube_apiserver_clusterip_allocator_available_ips", "Cluster IPs of a range that are free.", []string{"cidr"}, nil)
	allocatedPorts = prometheus.NewDesc("kube_apiserver_nodeport_allocator_allocated_ports", "Node ports that are allocated.", nil, nil)
	availablePorts = prometheus.NewDesc("kube_apiserver_nodeport_allocator_available_ports", "Node ports that are free.", nil, nil)
)

// collectTimeout bounds what is read from etcd for metrics.
const collectTimeout = 2 * time.Second

// Describe is part of prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{allocatedIPs, availableIPs, allocatedPorts, availablePorts} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	c.Addresses.collect(ctx, ch)
	c.NodePorts.collect(ctx, ch)
}

// collect counts the addresses in the view of IPAddress objects. Every server has that view in memory: its repair
// follows it.
func (a *Addresses) collect(ctx context.Context, ch chan<- prometheus.Metric) {
	view, err := a.objects.View(ipAddresses)
	if err != nil {
		return
	}
	if _, inMemory := view.Len(); !inMemory {
		return
	}
	ranges, err := rangesOf(ctx, a.objects, ready)
	if err != nil {
		return
	}
	counts, err := a.usedOf(ctx, ranges)
	if err != nil {
		return
	}
	told := map[netip.Prefix]bool{}
	for i, r := range ranges {
		if told[r.prefix] { // several ServiceCIDRs may have the same range; its addresses were counted for the first
			continue
		}
		told[r.prefix] = true
		used, cidr := float64(counts[i]), r.prefix.String()
		ch <- prometheus.MustNewConstMetric(allocatedIPs, prometheus.GaugeValue, used, cidr)
		ch <- prometheus.MustNewConstMetric(availableIPs, prometheus.GaugeValue, max(0, float64(r.size)-used), cidr)
	}
}

// usedOf counts the allocated addresses of ranges.
func (a *Addresses) usedOf(ctx context.Context, ranges []addressRange) ([]int, error) {
	view, err := a.objects.View(ipAddresses)
	if err != nil {
		return nil, err
	}
	snap, err := view.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	counts := make([]int, len(ranges))
	err = snap.Ascend(ctx, store.Range{}, func(i *store.Item) bool {
		if address, err := netip.ParseAddr(i.Key); err == nil {
			for n := range ranges {
				if ranges[n].contains(address) {
					counts[n]++
					break
				}
			}
		}
		return true
	})
	return counts, err
}

// collect reads the set of ports as this server has last seen it, else from etcd.
func (n *NodePorts) collect(ctx context.Context, ch chan<- prometheus.Metric) {
	used := 0
	if item, err := n.view.Latest(ctx, portsKey); err == nil {
		s, err := decodePorts(item.Value())
		if err != nil {
			return
		}
		s.each(func(int32) { used++ })
	}
	ch <- prometheus.MustNewConstMetric(allocatedPorts, prometheus.GaugeValue, float64(used))
	ch <- prometheus.MustNewConstMetric(availablePorts, prometheus.GaugeValue, float64(int(n.ports.size)-used))
}
