package aggregator

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/base/series"
	"github.com/kanzen-io/kanzen/internal/wire/remote"
)

// Metrics measure the Aggregator Server under kube-apiserver's names.
type Metrics struct {
	registry     prometheus.Registerer
	unavailable  *series.CounterVec
	aggregations prometheus.Counter
	// certificates counts deprecated certificates of extension servers.
	certificates remote.Certificates
}

// NewMetrics creates and registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	m := &Metrics{
		registry: r,
		unavailable: series.NewCounterVec(prometheus.CounterOpts{Name: "aggregator_unavailable_apiservice_total",
			Help: "Times that an APIService became unavailable, by name and reason."}, []string{"name", "reason"}),
		aggregations: counter("aggregator_discovery_aggregation_count_total", "Times that the discovery documents were made anew."),
		certificates: remote.Certificates{
			MissingNames: counter("apiserver_kube_aggregator_x509_missing_san_total",
				"Answers and failures of extension servers whose certificate has no alternative names.").Inc,
			InsecureSignature: counter("apiserver_kube_aggregator_x509_insecure_sha1_total",
				"Answers and failures of extension servers whose certificate has a SHA-1 signature.").Inc,
		},
	}
	r.MustRegister(m.unavailable)
	return m
}

// Aggregated counts that the discovery documents were made anew.
func (m *Metrics) Aggregated() { m.aggregations.Inc() }

var serviceDesc = prometheus.NewDesc("aggregator_unavailable_apiservice", "1 for each APIService that is not available.", []string{"name"}, nil)

// availability collects the gauge of all APIServices.
type availability struct{ *Server }

func (m *Metrics) registerServices(s *Server) { m.registry.MustRegister(availability{s}) }

// Describe is part of prometheus.Collector.
func (a availability) Describe(to chan<- *prometheus.Desc) { to <- serviceDesc }

// Collect is part of prometheus.Collector.
func (a availability) Collect(to chan<- prometheus.Metric) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for name, v := range a.services {
		value := 1.0
		if v.isAvailable() {
			value = 0
		}
		to <- prometheus.MustNewConstMetric(serviceDesc, prometheus.GaugeValue, value, name)
	}
}
