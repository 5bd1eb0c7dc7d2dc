package findings

import (
	"github.com/prometheus/client_golang/prometheus"
)

var desc = prometheus.NewDesc("kanzen_findings", "What is wrong now, by check and severity; 'kanzen diagnose' says more.", []string{"name", "severity"}, nil)

// Describe is part of prometheus.Collector.
func (e *Engine) Describe(ch chan<- *prometheus.Desc) { ch <- desc }

// Collect is part of prometheus.Collector. It tells what was found last, and does not look.
func (e *Engine) Collect(ch chan<- prometheus.Metric) {
	found, _ := e.last()
	counts := map[[2]string]int{}
	for _, f := range found {
		counts[[2]string{f.Check, f.Severity}]++
	}
	for k, n := range counts {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), k[0], k[1])
	}
}
