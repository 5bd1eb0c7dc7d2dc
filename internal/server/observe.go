package server

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/debug"
	"github.com/kanzen-io/kanzen/internal/egress"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/features"
	"github.com/kanzen-io/kanzen/internal/metrics"
	"github.com/kanzen-io/kanzen/internal/tracing"
	"github.com/kanzen-io/kanzen/internal/version"
)

// This file wires observability: traces, metrics, the HTTP server's log.

// traces sends the spans of sampled requests to the collector.
type traces struct {
	*tracing.Tracing // nil: nothing is traced
	log              *slog.Logger
}

// tracing connects to the collector of traces, if there is one.
func (b *base) tracing(ctx context.Context) (*traces, error) {
	t := &traces{log: b.log}
	if b.cfg.TracingConfigFile == "" {
		return t, nil
	}
	c, err := tracing.Load(b.cfg.TracingConfigFile)
	if err == nil {
		t.Tracing, err = tracing.New(ctx, c, b.cfg.Hostname(), b.ground.Egress.Dial(egress.ControlPlane))
	}
	if err != nil {
		return nil, fmt.Errorf("--tracing-config-file: %w", err)
	}
	return t, nil
}

// closeTimeout bounds how long shutting down waits for the collector of traces.
const closeTimeout = 3 * time.Second

// close sends the remaining spans. An unreachable collector is not a failure of the server.
func (t *traces) close() error {
	if t.Tracing == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		t.log.Warn("traces were lost", "error", err)
	}
	return nil
}

// filter returns the chain's filter that makes the spans of requests, nil if nothing is traced.
func (t *traces) filter() chain.Filter {
	if t.Tracing == nil {
		return nil
	}
	return t.Filter
}

// serverErrors receives the log of the HTTP server. It has errors of connections, which clients
// cause, so they are logged for debugging only.
type serverErrors struct {
	log     *slog.Logger
	metrics *metrics.Metrics
}

// Write is part of io.Writer.
func (e *serverErrors) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if strings.Contains(text, "TLS handshake error") {
		e.metrics.HandshakeFailed()
	}
	e.log.Debug(text)
	return len(line), nil
}

// gatesOf are the feature gates that were asked for.
func gatesOf(cfg *config.Config) features.Set {
	gates, _ := features.Parse(cfg.FeatureGates) // Validate has reported the error
	return gates
}

// zpages are /statusz and /flagz, as far as their feature gates are on.
func (b *base) zpages() *debug.Zpages {
	gates := gatesOf(b.cfg)
	return &debug.Zpages{
		Started: b.ground.Clock.Now(), Clock: b.ground.Clock, Flags: b.cfg.Flags, WriteError: engine.RefuseRequest,
		Statusz: gates.Enabled(features.ComponentStatusz), Flagz: gates.Enabled(features.ComponentFlagz),
	}
}

// identity returns the metrics that tell what this server is: its version, as /version does, and its feature gates.
func identity(cfg *config.Config) []prometheus.Collector {
	v := cfg.VersionInfo()
	set, _ := features.Parse(cfg.FeatureGates) // Validate has reported the error
	compatible := prometheus.NewGauge(prometheus.GaugeOpts{Name: "version_info", Help: "A constant 1, with the versions that this server is compatible with as labels.",
		ConstLabels: prometheus.Labels{"component": "kube", "binary": version.Kubernetes, "emulation": v.EmulationMajor + "." + v.EmulationMinor,
			"min_compat": v.MinCompatibilityMajor + "." + v.MinCompatibilityMinor}})
	compatible.Set(1)
	return []prometheus.Collector{buildInfo(v), gates{set, prometheus.NewDesc("kubernetes_feature_enabled", "1 for each feature gate that is on.", []string{"name", "stage"}, nil)}, compatible}
}

// gates is the metric of feature gates. They never change, and are hundreds: they are made when somebody asks for metrics.
type gates struct {
	features.Set
	desc *prometheus.Desc
}

// Describe is part of prometheus.Collector.
func (g gates) Describe(ch chan<- *prometheus.Desc) { ch <- g.desc }

// Collect is part of prometheus.Collector.
func (g gates) Collect(ch chan<- prometheus.Metric) {
	all := g.All()
	for name, gate := range features.Known() {
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
