package authn

import (
	"net/http"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
)

// Measured returns a with metrics of its results and latency.
func Measured(a Authenticator, r prometheus.Registerer, clk clock.PassiveClock) Authenticator {
	m := &measured{
		next: a, clock: clk,
		users: series.NewCounterVec(prometheus.CounterOpts{Name: "authenticated_user_requests",
			Help: "Counter of authenticated requests broken out by username."}, []string{"username"}),
		attempts: series.NewCounterVec(prometheus.CounterOpts{Name: "authentication_attempts",
			Help: "Counter of authenticated attempts."}, []string{"result"}),
		seconds: histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{Name: "authentication_duration_seconds",
			Help: "Authentication duration in seconds broken out by result.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}), []string{"result"}),
	}
	r.MustRegister(m.users, m.attempts, m.seconds)
	m.succeeded = sync.OnceValue(func() outcome { return m.of("success") })
	return m
}

// outcome is the metrics of one result.
type outcome struct {
	attempts prometheus.Counter
	seconds  prometheus.Observer
}

func (m *measured) of(result string) outcome {
	return outcome{m.attempts.WithLabelValues(result), m.seconds.WithLabelValues(result)}
}

type measured struct {
	next            Authenticator
	clock           clock.PassiveClock
	users, attempts *series.CounterVec
	seconds         *histogram.Vec
	succeeded       func() outcome // looked up once: it is of nearly every request
}

// Authenticate is part of Authenticator.
func (m *measured) Authenticate(r *http.Request) (user.Info, bool, error) {
	began := m.clock.Now()
	u, ok, err := m.next.Authenticate(r)
	var of outcome
	switch {
	case err != nil:
		of = m.of("error")
	case !ok:
		of = m.of("failure")
	default:
		of = m.succeeded()
		m.users.WithLabelValues(shortened(u.GetName())).Inc()
	}
	of.attempts.Inc()
	of.seconds.Observe(m.clock.Since(began).Seconds())
	return u, ok, err
}

// shortened maps user names to a few values, to bound the number of time series.
func shortened(name string) string {
	switch {
	case name == "admin", name == "client", name == "kube_proxy", name == "kubelet", name == "system:serviceaccount:kube-system:default":
		return name
	case strings.Contains(name, "@"):
		return "email_id"
	}
	return "other"
}
