// Package metrics measures the server under the names that kube-apiserver's
// dashboards and alerts know.
package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Metrics are those of one server; two servers in a process have two.
type Metrics struct {
	registry *prometheus.Registry
	total    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inflight *prometheus.GaugeVec
	long     *prometheus.GaugeVec
	panics   prometheus.Counter
}

// New makes the metrics of a server.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total",
			Help: "Requests by verb, dry run, group, version, resource, scope, component and code.",
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_request_duration_seconds",
			Help: "How long requests took, those that last by nature left out.",
			Buckets: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3,
				4, 5, 6, 8, 10, 15, 20, 30, 45, 60},
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_current_inflight_requests",
			Help: "Requests being served now, those that last by nature left out.",
		}, []string{"request_kind"}),
		long: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests",
			Help: "Watches and streams being served now.",
		}, []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_request_panics_total",
			Help: "Requests whose handler panicked.",
		}),
	}
	m.registry.MustRegister(m.total, m.seconds, m.inflight, m.long, m.panics,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Register adds a collector of another part.
func (m *Metrics) Register(c ...prometheus.Collector) { m.registry.MustRegister(c...) }

// Registry is where other parts register theirs.
func (m *Metrics) Registry() prometheus.Registerer { return m.registry }

// Handler serves the metrics as text.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Panicked counts a panic.
func (m *Metrics) Panicked(*http.Request) { m.panics.Inc() }

const component = "apiserver"

// Filter measures each request that passes.
func (m *Metrics) Filter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := request.InfoFrom(r.Context())
		if i == nil {
			next.ServeHTTP(w, r)
			return
		}
		l := labelsOf(i, r)
		if chain.LongRunning(i) {
			g := m.long.WithLabelValues(l.verb, l.group, l.version, l.resource, l.subresource, l.scope, component)
			g.Inc()
			defer g.Dec()
			next.ServeHTTP(w, r)
			m.count(l, chain.StatusOf(w))
			return
		}
		g := m.inflight.WithLabelValues(l.kind)
		g.Inc()
		defer g.Dec()
		start := time.Now()
		next.ServeHTTP(w, r)
		m.count(l, chain.StatusOf(w))
		m.seconds.WithLabelValues(l.verb, l.dryRun, l.group, l.version, l.resource, l.subresource, l.scope, component).
			Observe(time.Since(start).Seconds())
	})
}

func (m *Metrics) count(l labels, code int) {
	m.total.WithLabelValues(l.verb, l.dryRun, l.group, l.version, l.resource, l.subresource, l.scope, component, strconv.Itoa(code)).Inc()
}

// labels of a request. Their number is bounded: names and unknown resources
// of a path are left out by who registers resources, and verbs are few.
type labels struct{ verb, dryRun, group, version, resource, subresource, scope, kind string }

func labelsOf(i *request.Info, r *http.Request) labels {
	l := labels{verb: verbOf(i), group: i.Group, version: i.Version, resource: i.Resource, subresource: i.Subresource, kind: "readOnly"}
	if !i.IsResource {
		l.subresource = "other"
		if known[i.Path] {
			l.subresource = i.Path
		}
	}
	switch i.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		l.kind = "mutating"
		if v := r.URL.Query()["dryRun"]; len(v) > 0 {
			l.dryRun = "All"
		}
	}
	switch {
	case !i.IsResource:
	case i.Name != "":
		l.scope = "resource"
	case i.Namespace != "":
		l.scope = "namespace"
	default:
		l.scope = "cluster"
	}
	return l
}

var known = map[string]bool{"/healthz": true, "/livez": true, "/readyz": true, "/metrics": true, "/version": true,
	"/openapi/v2": true, "/openapi/v3": true, "/api": true, "/apis": true}

// verbOf spells verbs as kube-apiserver's metrics do.
func verbOf(i *request.Info) string {
	switch i.Verb {
	case "get", "list", "watch", "patch", "delete", "deletecollection", "create", "update", "post", "put":
	default:
		return "other"
	}
	switch i.Verb {
	case "create", "post":
		return "POST"
	case "update", "put":
		return "PUT"
	case "get":
		return "GET"
	case "list":
		return "LIST"
	case "watch":
		return "WATCH"
	case "patch":
		return "PATCH"
	case "delete":
		return "DELETE"
	}
	return "DELETECOLLECTION"
}
