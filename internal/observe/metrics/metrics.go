// Package metrics measures the server under the metric names that kube-apiserver's dashboards and alerts use.
package metrics

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Metrics are the metrics of one server; two servers in a process have two.
type Metrics struct {
	served   Served // nil: nothing is
	registry *prometheus.Registry
	native   bool
	others   prometheus.Gatherer  // metrics of the process
	slis     *prometheus.Registry // service level indicators, served at their own path

	total, self, aborts, terminations *series.CounterVec
	seconds, sliSeconds, sloSeconds   *histogram.Vec
	sizes, bodySizes                  *histogram.Vec
	filters, validations              *histogram.Vec
	long, deprecated                  *series.GaugeVec
	panics, background, tlsErrors     prometheus.Counter
	healthcheck                       *series.GaugeVec
	healthchecks                      *series.CounterVec
	reading, writing                  inFlight

	mu     sync.RWMutex
	series map[labels]*requests // guarded by mu
}

// Served says what is served.
type Served interface {
	// Owns reports whether the path of a request belongs to a served resource. Other paths are only counted, without
	// labels, because clients can invent any name.
	Owns(r *http.Request, i *request.Info) bool
	// Serves reports whether a resource is served, in any version if it names none.
	Serves(gvr schema.GroupVersionResource) bool
}

// inFlight counts concurrent requests of one kind.
type inFlight struct {
	now  atomic.Int64
	most atomic.Int64 // since the last take
}

func (f *inFlight) enter() {
	n := f.now.Add(1)
	for m := f.most.Load(); n > m && !f.most.CompareAndSwap(m, n); m = f.most.Load() {
	}
}

func (f *inFlight) leave() { f.now.Add(-1) }

// take returns the greatest number of concurrent requests since the last call.
func (f *inFlight) take() float64 { return float64(f.most.Swap(f.now.Load())) }

// Process returns the metrics of the Go runtime and of the process, for the registry of what a process has once.
func Process() []prometheus.Collector {
	return []prometheus.Collector{collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
}

// New creates the metrics of a server. process gathers the metrics of the process. native: histograms are native too.
func New(served Served, process prometheus.Gatherer, native bool) *Metrics {
	m := &Metrics{served: served, others: process, registry: prometheus.NewRegistry(), native: native, slis: prometheus.NewRegistry(), series: map[labels]*requests{}}
	counter := func(name, help string, labels ...string) *series.CounterVec {
		v := series.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *histogram.Vec {
		v := histogram.NewVec(histogram.Opts(m.Registry(), prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}), labels)
		m.registry.MustRegister(v)
		return v
	}
	seconds := []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60}
	sli := seconds[2:]
	where := []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}
	dry := append([]string{"dry_run"}, where...)
	m.total = counter("apiserver_request_total", "Requests by verb, dry run, group, version, resource, scope, component and code.", append([]string{"code"}, dry...)...)
	m.self = counter("apiserver_selfrequest_total", "Requests that the server sent to itself.", "verb", "group", "resource", "subresource")
	m.aborts = counter("apiserver_request_aborts_total", "Requests that were cut off.", "verb", "group", "version", "resource", "subresource", "scope")
	m.terminations = counter("apiserver_request_terminations_total", "Requests that the server ended in self-defence.", append([]string{"code"}, where...)...)
	m.seconds = histogram("apiserver_request_duration_seconds", "How long requests took.", seconds, dry...)
	m.sliSeconds = histogram("apiserver_request_sli_duration_seconds", "The same, without waiting for webhooks and in queues.", sli, where...)
	m.sloSeconds = histogram("apiserver_request_slo_duration_seconds", "Old name of apiserver_request_sli_duration_seconds.", sli, where...)
	m.sizes = histogram("apiserver_response_sizes", "Bytes of the answers to reads.", prometheus.ExponentialBuckets(1000, 10, 7), where...)
	m.bodySizes = histogram("apiserver_request_body_size_bytes", "Bytes of the bodies of writes.", bodyBuckets(), "group", "resource", "verb")
	m.filters = histogram("apiserver_request_filter_duration_seconds", "How long requests were in a filter.",
		[]float64{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 10.0, 15.0, 30.0}, "filter")
	m.validations = histogram("field_validation_request_duration_seconds", "How long writes took, by their parameter fieldValidation.", sli, "field_validation")
	m.long = series.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_longrunning_requests", Help: "Watches and streams being served now."}, where)
	m.deprecated = series.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_requested_deprecated_apis",
		Help: "1 for each deprecated API that has been requested."}, []string{"group", "version", "resource", "subresource", "removed_release"})
	m.panics = prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_request_panics_total", Help: "Requests whose handler panicked."})
	m.background = prometheus.NewCounter(prometheus.CounterOpts{Name: "kanzen_background_panics_total", Help: "Panics in controllers and other work that is no request."})
	m.tlsErrors = prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_tls_handshake_errors_total", Help: "Connections whose TLS handshake failed."})
	// Nothing is hidden: metrics have no stability levels here.
	m.registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "hidden_metrics_total", Help: "The count of hidden metrics."}))
	m.registry.MustRegister(m.long, m.deprecated, m.panics, m.background, m.tlsErrors, m.gauge("readOnly", &m.reading), m.gauge("mutating", &m.writing))
	m.healthcheck = series.NewGaugeVec(prometheus.GaugeOpts{Name: "kubernetes_healthcheck", Help: "This metric records the result of a single healthcheck."}, []string{"name", "type"})
	m.healthchecks = series.NewCounterVec(prometheus.CounterOpts{Name: "kubernetes_healthchecks_total", Help: "This metric records the results of all healthcheck."}, []string{"name", "status", "type"})
	m.slis.MustRegister(m.healthcheck, m.healthchecks)
	return m
}

func (m *Metrics) gauge(kind string, f *inFlight) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "apiserver_current_inflight_requests",
		Help:        "The most requests served at a time since this was last asked, those that last by nature left out.",
		ConstLabels: prometheus.Labels{"request_kind": kind}}, f.take)
}

// bodyBuckets returns buckets that are finer where most writes are.
func bodyBuckets() []float64 {
	return append(prometheus.LinearBuckets(50000, 100000, 31), 3145728)
}

// Register adds collectors of other packages.
func (m *Metrics) Register(c ...prometheus.Collector) { m.registry.MustRegister(c...) }

// Registry returns the registerer for other packages.
func (m *Metrics) Registry() prometheus.Registerer { return histogram.Registry(m.registry, m.native) }

// Handler serves the metrics as text, in a shape (nil: as they are). With reset, a DELETE request resets the request metrics to zero.
func (m *Metrics) Handler(reset bool, shape *Shape) http.Handler {
	read := promhttp.HandlerFor(shape.Of(prometheus.Gatherers{m.registry, m.others}), promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}) // one metric that fails hides no others
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reset && r.Method == http.MethodDelete {
			for _, v := range []interface{ Reset() }{m.total, m.self, m.aborts, m.terminations, m.seconds, m.sliSeconds, m.sloSeconds, m.sizes, m.bodySizes, m.validations} {
				v.Reset()
			}
			m.forget()
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("metrics reset\n"))
			return
		}
		m.sweep()
		read.ServeHTTP(w, r)
	})
}

// forget looks the series of requests up anew, because they were reset.
func (m *Metrics) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.series)
}

// SLIs serves the service level indicators.
func (m *Metrics) SLIs() http.Handler { return promhttp.HandlerFor(m.slis, promhttp.HandlerOpts{}) }

// Panicked counts a panic.
func (m *Metrics) Panicked(*http.Request) { m.panics.Inc() }

// BackgroundPanicked counts a panic outside of requests.
func (m *Metrics) BackgroundPanicked() { m.background.Inc() }

// Deprecated records a request for a deprecated API. removed is the release that does not serve it any more, if that is known.
func (m *Metrics) Deprecated(_ context.Context, gvr schema.GroupVersionResource, subresource, removed string) {
	m.deprecated.WithLabelValues(gvr.Group, gvr.Version, gvr.Resource, subresource, removed).Set(1)
}

// HandshakeFailed counts a TLS handshake that failed.
func (m *Metrics) HandshakeFailed() { m.tlsErrors.Inc() }

// Filtered returns a func that measures the time of a request in a filter.
func (m *Metrics) Filtered(filter string) func(d time.Duration) {
	seconds := m.filters.WithLabelValues(filter)
	return func(d time.Duration) { seconds.Observe(d.Seconds()) }
}

// Checked records the result of a health check; kind is healthz, livez or readyz.
func (m *Metrics) Checked(name, kind string, ok bool) {
	value, status := 0.0, "error"
	if ok {
		value, status = 1, "success"
	}
	m.healthcheck.WithLabelValues(name, kind).Set(value)
	m.healthchecks.WithLabelValues(name, status, kind).Inc()
}
