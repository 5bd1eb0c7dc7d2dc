package encryption

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
)

// Directions of a transformation, as metrics name them.
const (
	toStorage   = "to_storage"
	fromStorage = "from_storage"
)

// keyIDs bounds the IDs of keys that metrics tell of.
const keyIDs = 100

// metrics are kube-apiserver's metrics of encryption. IDs of keys and servers are told as hashes.
type metrics struct {
	clock  clock.PassiveClock
	server string // hash

	seconds       *histogram.Vec
	operations    *series.CounterVec
	cacheMisses   prometheus.Counter
	keyFailures   prometheus.Counter // stays 0: a machine without randomness has no servers
	keysFilled    prometheus.Gauge   // of version 1 of plugins
	seedSeconds   prometheus.Histogram
	calls         *histogram.Vec
	seedsKept     *series.GaugeVec
	invalidKeyIDs *series.CounterVec
	keyIDTotal    *series.CounterVec
	keyIDLast     *series.GaugeVec
	keyIDStatus   *series.GaugeVec

	mu sync.Mutex
	// used and told are the labels that exist; the least recently used go. Guarded by mu.
	used, told *lru.Cache
}

// RegisterIdle registers the metrics of a server that encrypts nothing: dashboards ask for them.
func RegisterIdle(r prometheus.Registerer, clk clock.PassiveClock) { newMetrics(r, "", clk) }

func newMetrics(r prometheus.Registerer, server string, clk clock.PassiveClock) *metrics {
	const storage, envelopes = "apiserver_storage_", "apiserver_envelope_encryption_"
	keyLabels := []string{"transformation_type", "provider_name", "key_id_hash", "apiserver_id_hash"}
	m := &metrics{clock: clk, server: hashOf(server),
		seconds: histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{Name: storage + "transformation_duration_seconds",
			Help:    "Latencies in seconds of value transformation operations.",
			Buckets: prometheus.ExponentialBuckets(5e-6, 2, 25)}), []string{"transformation_type", "transformer_prefix"}),
		operations: series.NewCounterVec(prometheus.CounterOpts{Name: storage + "transformation_operations_total",
			Help: "Total number of transformations, by the gRPC code of their error (OK: none)."},
			[]string{"resource", "transformation_type", "transformer_prefix", "status"}),
		cacheMisses: prometheus.NewCounter(prometheus.CounterOpts{Name: storage + "envelope_transformation_cache_misses_total",
			Help: "Total number of cache misses while accessing key decryption key(KEK)."}),
		keyFailures: prometheus.NewCounter(prometheus.CounterOpts{Name: storage + "data_key_generation_failures_total",
			Help: "Total number of failed data encryption key(DEK) generation operations."}),
		keysFilled: prometheus.NewGauge(prometheus.GaugeOpts{Name: envelopes + "dek_cache_fill_percent",
			Help: "Percent of the cache slots currently occupied by cached DEKs."}),
		seedSeconds: prometheus.NewHistogram(histogram.Opts(r, prometheus.HistogramOpts{Name: storage + "data_key_generation_duration_seconds",
			Help: "Latencies in seconds of data encryption key(DEK) generation operations.", Buckets: prometheus.ExponentialBuckets(5e-6, 2, 14)})),
		calls: histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{Name: envelopes + "kms_operations_latency_seconds",
			Help:    "KMS operation duration with gRPC error code status total.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 20)}), []string{"provider_name", "method_name", "grpc_status_code"}),
		seedsKept: series.NewGaugeVec(prometheus.GaugeOpts{Name: envelopes + "dek_source_cache_size",
			Help: "Number of records in data encryption key (DEK) source cache. On a restart, this value is an approximation of the number of decrypt RPC calls the server will make to the KMS plugin."},
			[]string{"provider_name"}),
		invalidKeyIDs: series.NewCounterVec(prometheus.CounterOpts{Name: envelopes + "invalid_key_id_from_status_total",
			Help: "Number of times an invalid keyID is returned by the Status RPC call split by error."}, []string{"provider_name", "error"}),
		keyIDTotal: series.NewCounterVec(prometheus.CounterOpts{Name: envelopes + "key_id_hash_total",
			Help: "Number of times a keyID is used split by transformation type, provider, and apiserver identity."}, keyLabels),
		keyIDLast: series.NewGaugeVec(prometheus.GaugeOpts{Name: envelopes + "key_id_hash_last_timestamp_seconds",
			Help: "The last time in seconds when a keyID was used."}, keyLabels),
		keyIDStatus: series.NewGaugeVec(prometheus.GaugeOpts{Name: envelopes + "key_id_hash_status_last_timestamp_seconds",
			Help: "The last time in seconds when a keyID was returned by the Status RPC call."}, keyLabels[1:]),
	}
	r.MustRegister(m.seconds, m.operations, m.cacheMisses, m.keyFailures, m.keysFilled, m.seedSeconds, m.calls, m.seedsKept, m.invalidKeyIDs, m.keyIDTotal, m.keyIDLast, m.keyIDStatus)
	m.used = lru.NewWithEvictionFunc(keyIDs, func(key lru.Key, _ any) {
		l := key.(keyLabel)
		m.keyIDTotal.DeleteLabelValues(l.direction, l.provider, l.keyHash, m.server)
		m.keyIDLast.DeleteLabelValues(l.direction, l.provider, l.keyHash, m.server)
	})
	m.told = lru.NewWithEvictionFunc(keyIDs, func(key lru.Key, _ any) {
		l := key.(keyLabel)
		m.keyIDStatus.DeleteLabelValues(l.provider, l.keyHash, m.server)
	})
	return m
}

// keyLabel identifies a key in metrics.
type keyLabel struct{ direction, provider, keyHash string }

// hashOf returns "" for "".
func hashOf(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(s)))
}

func (m *metrics) transformed(resource, direction, prefix string, took time.Duration, err error) {
	m.operations.WithLabelValues(resource, direction, prefix, codeOf(err)).Inc()
	if err == nil {
		m.seconds.WithLabelValues(direction, prefix).Observe(took.Seconds())
	}
}

func (m *metrics) called(provider, method string, took time.Duration, err error) {
	m.calls.WithLabelValues(provider, method, codeOf(err)).Observe(took.Seconds())
}

// keyUsed counts a use of a key, whose ID has a hash.
func (m *metrics) keyUsed(direction, provider, keyHash string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used.Add(keyLabel{direction, provider, keyHash}, nil)
	m.keyIDTotal.WithLabelValues(direction, provider, keyHash, m.server).Inc()
	m.keyIDLast.WithLabelValues(direction, provider, keyHash, m.server).Set(m.now())
}

// keyTold notes that the plugin gave the ID of its key.
func (m *metrics) keyTold(provider, keyHash string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told.Add(keyLabel{provider: provider, keyHash: keyHash}, nil)
	m.keyIDStatus.WithLabelValues(provider, keyHash, m.server).Set(m.now())
}

func (m *metrics) now() float64 { return float64(m.clock.Now().UnixNano()) / 1e9 }

// codeOf is the gRPC code of an error.
func codeOf(err error) string {
	if err == nil {
		return codes.OK.String()
	}
	var s interface{ GRPCStatus() *status.Status }
	if errors.As(err, &s) {
		return s.GRPCStatus().Code().String()
	}
	return "unknown-non-grpc"
}
