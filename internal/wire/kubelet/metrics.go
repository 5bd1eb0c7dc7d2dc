package kubelet

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/base/series"
)

// metrics have kube-apiserver's names.
type metrics struct {
	translated, tunneled *series.CounterVec
	sockets              *series.CounterVec
	logs                 *series.CounterVec
	logFailures          prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	vec := func(name, help string, labels ...string) *series.CounterVec {
		return series.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		translated: vec("apiserver_stream_translator_requests_total", "Sessions of exec and attach translated from websocket to SPDY, by the status that they ended with.", "code"),
		tunneled:   vec("apiserver_stream_tunnel_requests_total", "Port-forwards tunneled through a websocket, by the status that they were answered with.", "code"),
		sockets:    vec("apiserver_websocket_streaming_requests_total", "Requests for exec, attach and port-forward, by whether the kubelet speaks websocket itself.", "subresource", "proxy_type"),
		logs:       vec("kube_apiserver_pod_logs_insecure_backend_total", "Requests for logs, by whether the kubelet's certificate was to be verified.", "usage"),
		logFailures: prometheus.NewCounter(prometheus.CounterOpts{Name: "kube_apiserver_pod_logs_backend_tls_failure_total",
			Help: "Requests for logs that failed because the kubelet's certificate was not valid."}),
	}
	r.MustRegister(m.translated, m.tunneled, m.sockets, m.logs, m.logFailures)
	return m
}

func count(v *series.CounterVec, code int) { v.WithLabelValues(strconv.Itoa(code)).Inc() }
