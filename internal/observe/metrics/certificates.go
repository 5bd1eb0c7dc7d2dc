package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/base/series"
)

// Issued registers the metrics of certificates that were requested with a duration, and returns a func that counts one.
func Issued(r prometheus.Registerer) func(signer string, honored bool) {
	counter := func(name, what string) *series.CounterVec {
		v := series.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_certificates_registry_csr_" + name + "_duration_total",
			Help: "Total number of issued CSRs with a requested duration" + what + ", sliced by signer (only kubernetes.io signer names are specifically identified)"},
			[]string{"signerName"})
		r.MustRegister(v)
		return v
	}
	requested, honored := counter("requested", ""), counter("honored", " that was honored")
	return func(signer string, as bool) {
		requested.WithLabelValues(signer).Inc()
		if as {
			honored.WithLabelValues(signer).Inc()
		}
	}
}
