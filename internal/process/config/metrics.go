package config

import (
	"github.com/spf13/pflag"

	"github.com/kanzen-io/kanzen/internal/observe/metrics"
)

// This file contains the settings of what /metrics shows.

func (c *Config) addMetricsFlags(fs *pflag.FlagSet) {
	fs.StringToStringVar(&c.AllowMetricLabels, "allow-metric-labels", c.AllowMetricLabels, "Values of labels that /metrics shows, as METRIC,LABEL='VALUE,VALUE'; all others of such a label are shown as \"unexpected\".")
	fs.StringVar(&c.AllowMetricLabelsManifest, "allow-metric-labels-manifest", c.AllowMetricLabelsManifest, "YAML file with the same under allowListMapping; the flag overrides it.")
	fs.StringSliceVar(&c.DisabledMetrics, "disabled-metrics", c.DisabledMetrics, "Names of metrics that /metrics does not show.")
}

func (c *Config) validateMetrics(bad reporter) {
	if _, err := metrics.NewShape(c.AllowMetricLabels, "", nil); err != nil {
		bad("allow-metric-labels", "%v", err)
	}
	if _, err := metrics.NewShape(nil, c.AllowMetricLabelsManifest, nil); err != nil {
		bad("allow-metric-labels-manifest", "%v", err)
	}
}

// MetricsShape returns what is shown of the metrics.
func (c *Plane) MetricsShape() (*metrics.Shape, error) {
	return metrics.NewShape(c.AllowMetricLabels, c.AllowMetricLabelsManifest, c.DisabledMetrics)
}
