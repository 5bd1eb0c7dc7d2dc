package metrics

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/yaml"
)

// unexpected stands for the values of a label that are not on its list.
const unexpected = "unexpected"

// Shape is what an administrator wants of the metrics that are shown: series that cost too much can be joined, or left out.
type Shape struct {
	// allowed has, by metric and label, the values that are shown as they are.
	allowed map[string]map[string]map[string]bool
	// disabled are metrics that are not shown.
	disabled map[string]bool
}

// labelKey is METRIC,LABEL.
var labelKey = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*),([a-zA-Z_][a-zA-Z0-9_]*)$`)

// NewShape reads the values of --allow-metric-labels ("METRIC,LABEL": "VALUE,VALUE"), the file of --allow-metric-labels-manifest, which
// they override, and --disabled-metrics.
func NewShape(labels map[string]string, manifest string, disabled []string) (*Shape, error) {
	s := &Shape{allowed: map[string]map[string]map[string]bool{}, disabled: map[string]bool{}}
	all := map[string]string{}
	if manifest != "" {
		b, err := os.ReadFile(manifest)
		if err != nil {
			return nil, err
		}
		file := struct {
			AllowListMapping map[string]string `json:"allowListMapping"`
		}{}
		if err := yaml.UnmarshalStrict(b, &file); err != nil {
			return nil, fmt.Errorf("%s: %w", manifest, err)
		}
		all = file.AllowListMapping
	}
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels)
	for key, values := range all {
		m := labelKey.FindStringSubmatch(key)
		if m == nil {
			return nil, fmt.Errorf("%q is not of the form METRIC,LABEL", key)
		}
		if s.allowed[m[1]] == nil {
			s.allowed[m[1]] = map[string]map[string]bool{}
		}
		set := map[string]bool{}
		for value := range strings.SplitSeq(values, ",") {
			set[value] = true
		}
		s.allowed[m[1]][m[2]] = set
	}
	for _, name := range disabled {
		if name != "" {
			s.disabled[name] = true
		}
	}
	return s, nil
}

// Of returns a gatherer that shows what another one gathers in this shape, with kube-apiserver's metrics about that.
func (s *Shape) Of(g prometheus.Gatherer) prometheus.Gatherer {
	if s == nil {
		s = &Shape{}
	}
	own := prometheus.NewRegistry()
	joined := prometheus.NewCounter(prometheus.CounterOpts{Name: "cardinality_enforcement_unexpected_categorizations_total",
		Help: "Values of labels that were shown as unexpected."})
	left := prometheus.NewCounter(prometheus.CounterOpts{Name: "disabled_metrics_total", Help: "Metrics that are disabled."})
	left.Add(float64(len(s.disabled)))
	own.MustRegister(joined, left)
	if len(s.allowed)+len(s.disabled) == 0 {
		return prometheus.Gatherers{g, own}
	}
	return prometheus.Gatherers{prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := g.Gather() // those that could be gathered are shown, whatever the error
		var out []*dto.MetricFamily
		for _, f := range families {
			if s.disabled[f.GetName()] {
				continue
			}
			if lists := s.allowed[f.GetName()]; lists != nil {
				joined.Add(float64(join(f, lists)))
			}
			out = append(out, f)
		}
		return out, err
	}), own}
}

// join replaces the values of labels that are not on the lists, joins the series that have the same labels after that, and returns how
// many values it replaced. What is gathered is a copy of the metrics, so it may be changed.
func join(f *dto.MetricFamily, lists map[string]map[string]bool) (replaced int) {
	byLabels := map[string]*dto.Metric{}
	var out []*dto.Metric
	for _, m := range f.Metric {
		var key strings.Builder
		labels := slices.Clone(m.Label)
		for n, l := range labels {
			if list := lists[l.GetName()]; list != nil && !list[l.GetValue()] {
				name, value := l.GetName(), unexpected
				labels[n] = &dto.LabelPair{Name: &name, Value: &value}
				replaced++
			}
			fmt.Fprintf(&key, "%q=%q,", labels[n].GetName(), labels[n].GetValue())
		}
		if first := byLabels[key.String()]; first != nil {
			add(first, m)
			continue
		}
		m.Label = labels
		byLabels[key.String()] = m
		out = append(out, m)
	}
	f.Metric = out
	return replaced
}

// add adds the values of a series to another one of the same metric.
func add(to, m *dto.Metric) {
	sum := func(to, from *float64) {
		if to != nil && from != nil {
			*to += *from
		}
	}
	switch {
	case to.Counter != nil && m.Counter != nil:
		sum(to.Counter.Value, m.Counter.Value)
	case to.Gauge != nil && m.Gauge != nil:
		sum(to.Gauge.Value, m.Gauge.Value)
	case to.Untyped != nil && m.Untyped != nil:
		sum(to.Untyped.Value, m.Untyped.Value)
	case to.Summary != nil && m.Summary != nil:
		sum(to.Summary.SampleSum, m.Summary.SampleSum)
		*to.Summary.SampleCount += m.Summary.GetSampleCount()
	case to.Histogram != nil && m.Histogram != nil:
		// Native buckets of two series may have different bounds. Without them there are the named ones.
		h := to.Histogram
		h.Schema, h.ZeroThreshold, h.ZeroCount, h.PositiveSpan, h.PositiveDelta, h.NegativeSpan, h.NegativeDelta = nil, nil, nil, nil, nil, nil, nil
		sum(to.Histogram.SampleSum, m.Histogram.SampleSum)
		*to.Histogram.SampleCount += m.Histogram.GetSampleCount()
		for n, b := range to.Histogram.Bucket { // the buckets of a metric are the same for all of its series
			if n < len(m.Histogram.Bucket) {
				*b.CumulativeCount += m.Histogram.Bucket[n].GetCumulativeCount()
			}
		}
	}
}
