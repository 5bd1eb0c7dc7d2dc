package external

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
)

// Metrics measure requests to a signer.
type Metrics struct {
	fetchedAt, dataAt   prometheus.Gauge
	fetches, signatures *series.CounterVec
	seconds             *histogram.Vec
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	const prefix = "apiserver_externaljwt_"
	m := &Metrics{
		fetchedAt: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "fetch_keys_success_timestamp",
			Help: "Unix Timestamp in seconds of the last successful FetchKeys request"}),
		dataAt: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "fetch_keys_data_timestamp",
			Help: "Unix Timestamp in seconds of the last successful FetchKeys data_timestamp value returned by the external signer"}),
		fetches: series.NewCounterVec(prometheus.CounterOpts{Name: prefix + "fetch_keys_request_total",
			Help: "Total attempts at syncing supported JWKs"}, []string{"code"}),
		signatures: series.NewCounterVec(prometheus.CounterOpts{Name: prefix + "sign_request_total",
			Help: "Total attempts at signing JWT"}, []string{"code"}),
		seconds: histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{Name: prefix + "request_duration_seconds",
			Help:    "Request duration and time for calls to external-jwt-signer",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}}), []string{"method", "code"}),
	}
	r.MustRegister(m.fetchedAt, m.dataAt, m.fetches, m.signatures, m.seconds)
	return m
}

// codeOf returns the gRPC code of an error, which may be wrapped.
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

func (m *Metrics) intercept(clk clock.PassiveClock) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		began := clk.Now()
		err := invoke(ctx, method, req, reply, cc, opts...)
		m.seconds.WithLabelValues(method, codeOf(err)).Observe(clk.Since(began).Seconds())
		return err
	}
}

func (m *Metrics) fetched(err error, now time.Time) {
	m.fetches.WithLabelValues(codeOf(err)).Inc()
	if err == nil {
		m.fetchedAt.Set(seconds(now))
	}
}

func (m *Metrics) data(at time.Time) { m.dataAt.Set(seconds(at)) }

func (m *Metrics) signed(err error) { m.signatures.WithLabelValues(codeOf(err)).Inc() }

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
