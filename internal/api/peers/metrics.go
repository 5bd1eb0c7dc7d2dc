package peers

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/base/series"
)

// Reasons of failures, in metrics.
const (
	addressUnknown = "endpoint_resolution"
	leaseList      = "lease_list"
	hostUnknown    = "hostport_resolution"
	fetchFailed    = "fetch_discovery"
)

// Metrics measure what is passed on, under kube-apiserver's names.
type Metrics struct {
	rerouted, failures, syncs *series.CounterVec
	hits, misses, alone       prometheus.Counter
}

// NewMetrics creates and registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	counters := func(name, help string, labels ...string) *series.CounterVec {
		c := series.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	return &Metrics{
		rerouted: counters("apiserver_rerouted_request_total",
			"Requests passed on to another API server, which serves their resource; without one, what it serves was asked.", "code", "group", "version", "resource"),
		failures: counters("apiserver_peer_proxy_errors_total", "Requests that could not be passed on to another API server.", "type", "group", "version", "resource"),
		syncs:    counters("apiserver_peer_discovery_sync_errors_total", "Failures to learn what another API server serves.", "type"),
		hits:     counter("aggregator_discovery_peer_aggregated_cache_hits_total", "Requests for the discovery document of all servers that was made before."),
		misses:   counter("aggregator_discovery_peer_aggregated_cache_misses_total", "Times that the discovery document of all servers was made."),
		alone:    counter("aggregator_discovery_nopeer_requests_total", "Requests for the discovery document of this server alone."),
	}
}

func (m *Metrics) passed(code int, to schema.GroupVersionResource) {
	m.rerouted.WithLabelValues(strconv.Itoa(code), to.Group, to.Version, to.Resource).Inc()
}
