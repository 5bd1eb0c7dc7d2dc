package oidc

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
)

// Metrics measure the issuers of a server. Issuers, server and key sets are identified by hashes.
type Metrics struct {
	server  string
	clock   clock.PassiveClock
	latency *histogram.Vec
	fetches *series.GaugeVec
	info    *prometheus.Desc

	mu   sync.Mutex
	sets map[string]string // hash of the last key set, by hash of its issuer; guarded by mu
}

// NewMetrics registers the metrics of the server with the given identity.
func NewMetrics(r prometheus.Registerer, server string, clk clock.PassiveClock) *Metrics {
	const prefix = "apiserver_authentication_jwt_authenticator_"
	m := &Metrics{
		server: hash([]byte(server)), clock: clk, sets: map[string]string{},
		latency: histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{
			Name:    prefix + "latency_seconds",
			Help:    "Latency of jwt authentication operations in seconds. This is the time spent authenticating a token for cache miss only (i.e. when the token is not found in the cache).",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}), []string{"result", "jwt_issuer_hash"}),
		fetches: series.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "jwks_fetch_last_timestamp_seconds",
			Help: "Timestamp of the last successful or failed JWKS fetch split by result, api server identity and jwt issuer for the JWT authenticator.",
		}, []string{"result", "jwt_issuer_hash", "apiserver_id_hash"}),
		info: prometheus.NewDesc(prefix+"jwks_fetch_last_key_set_info",
			"Information about the last JWKS fetched by the JWT authenticator with hash as label, split by api server identity and jwt issuer.",
			[]string{"jwt_issuer_hash", "apiserver_id_hash", "hash"}, nil),
	}
	r.MustRegister(m.latency, m.fetches, m)
	return m
}

func hash(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data))
}

func (m *Metrics) authenticated(issuer string, took time.Duration, err error) {
	result := "success"
	if err != nil {
		result = "failure"
	}
	m.latency.WithLabelValues(result, hash([]byte(issuer))).Observe(took.Seconds())
}

// fetched records a fetch of the keys; keys is nil if it failed.
func (m *Metrics) fetched(issuer string, keys []byte) {
	name, result := hash([]byte(issuer)), "failure"
	if keys != nil {
		result = "success"
		m.mu.Lock()
		m.sets[name] = hash(keys)
		m.mu.Unlock()
	}
	m.fetches.WithLabelValues(result, name, m.server).Set(float64(m.clock.Now().UnixNano()) / 1e9)
}

// Forget deletes the metrics of an issuer that is no longer configured.
func (m *Metrics) Forget(issuer string) {
	name := hash([]byte(issuer))
	m.mu.Lock()
	delete(m.sets, name)
	m.mu.Unlock()
	m.fetches.DeleteLabelValues("success", name, m.server)
	m.fetches.DeleteLabelValues("failure", name, m.server)
}

// Describe is part of prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) { c <- m.info }

// Collect is part of prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for issuer, set := range m.sets {
		c <- prometheus.MustNewConstMetric(m.info, prometheus.GaugeValue, 1, issuer, m.server, set)
	}
}
