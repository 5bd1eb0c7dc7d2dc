package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
	"github.com/kanzen-io/kanzen/internal/wire/remote"
)

// Clients measures the requests that the server sends itself: to webhooks, and in the process to its own chain.
type Clients struct {
	requests                        *series.CounterVec
	seconds, sent, received         *histogram.Vec
	missingNames, insecureSignature prometheus.Counter
}

// NewClients makes the metrics and registers them.
func NewClients(r prometheus.Registerer) *Clients {
	const prefix = "rest_client_"
	where := []string{"verb", "host"}
	sizes := []float64{64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216}
	c := &Clients{
		requests: series.NewCounterVec(prometheus.CounterOpts{Name: prefix + "requests_total", Help: "Requests that the server sent, by code, method and host."},
			[]string{"code", "method", "host"}),
		seconds: histogram.NewVec(prometheus.HistogramOpts{Name: prefix + "request_duration_seconds", Help: "How long they took.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0}}, where),
		sent:     histogram.NewVec(prometheus.HistogramOpts{Name: prefix + "request_size_bytes", Help: "Bytes of their bodies.", Buckets: sizes}, where),
		received: histogram.NewVec(prometheus.HistogramOpts{Name: prefix + "response_size_bytes", Help: "Bytes of their answers.", Buckets: sizes}, where),
		missingNames: prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_webhooks_x509_missing_san_total",
			Help: "Calls of webhooks whose certificate has no subject alternative name."}),
		insecureSignature: prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_webhooks_x509_insecure_sha1_total",
			Help: "Calls of webhooks whose certificate is signed with SHA-1."}),
	}
	r.MustRegister(c.requests, c.seconds, c.sent, c.received, c.missingNames, c.insecureSignature)
	return c
}

// InProcess measures a request of this process to itself that was answered with a code.
func (c *Clients) InProcess(method string, code int, took time.Duration) {
	const host = "in-process"
	c.requests.WithLabelValues(strconv.Itoa(code), method, host).Inc()
	c.seconds.WithLabelValues(method, host).Observe(took.Seconds())
}

// Webhooks returns a transport to webhooks that is measured.
func (c *Clients) Webhooks(next http.RoundTripper) http.RoundTripper {
	return &measuredTransport{c, (&remote.Certificates{MissingNames: c.missingNames.Inc, InsecureSignature: c.insecureSignature.Inc}).Of(next)}
}

type measuredTransport struct {
	*Clients
	next http.RoundTripper
}

// RoundTrip is part of http.RoundTripper.
func (t *measuredTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := t.next.RoundTrip(r)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(min(resp.StatusCode, 600)) // the other side invents codes
		if resp.ContentLength >= 0 {
			t.received.WithLabelValues(r.Method, r.URL.Host).Observe(float64(resp.ContentLength))
		}
	}
	t.requests.WithLabelValues(code, r.Method, r.URL.Host).Inc()
	t.seconds.WithLabelValues(r.Method, r.URL.Host).Observe(time.Since(began).Seconds())
	if r.ContentLength >= 0 {
		t.sent.WithLabelValues(r.Method, r.URL.Host).Observe(float64(r.ContentLength))
	}
	return resp, err
}
