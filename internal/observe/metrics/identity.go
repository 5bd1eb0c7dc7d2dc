package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// Identity returns the metrics that tell what this server is: its version, as /version does, and its feature gates.
func Identity(v version.Build, at features.At, set features.Set) []prometheus.Collector {
	compatible := prometheus.NewGauge(prometheus.GaugeOpts{Name: "version_info", Help: "A constant 1, with the versions that this server is compatible with as labels.",
		ConstLabels: prometheus.Labels{"component": "kube", "binary": version.Kubernetes, "emulation": v.EmulationMajor + "." + v.EmulationMinor,
			"min_compat": v.MinCompatibilityMajor + "." + v.MinCompatibilityMinor}})
	compatible.Set(1)
	return []prometheus.Collector{buildInfo(v), gates{set, at, prometheus.NewDesc("kubernetes_feature_enabled", "1 for each feature gate that is on.", []string{"name", "stage"}, nil)}, compatible}
}

// gates is the metric of feature gates. They never change, and are hundreds: they are made when somebody asks for metrics.
type gates struct {
	features.Set
	at   features.At
	desc *prometheus.Desc
}

// Describe is part of prometheus.Collector.
func (g gates) Describe(ch chan<- *prometheus.Desc) { ch <- g.desc }

// Collect is part of prometheus.Collector.
func (g gates) Collect(ch chan<- prometheus.Metric) {
	all := g.All()
	for name, gate := range features.Known(g.at) {
		if gate.Stage == "PREALPHA" {
			continue
		}
		stage, on := gate.Stage, 0.0
		if stage == "GA" {
			stage = "" // as kube-apiserver
		}
		if all[name] {
			on = 1
		}
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, on, name, stage)
	}
}

// buildInfo is the metric that tells the version, as /version does.
func buildInfo(v version.Build) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kubernetes_build_info", Help: "A constant 1, with the version of this server as labels.",
		ConstLabels: prometheus.Labels{
			"major": v.Major, "minor": v.Minor, "git_version": v.GitVersion, "git_commit": v.GitCommit, "git_tree_state": v.GitTreeState,
			"build_date": v.BuildDate, "go_version": v.GoVersion, "compiler": v.Compiler, "platform": v.Platform,
		},
	})
	g.Set(1)
	return g
}
