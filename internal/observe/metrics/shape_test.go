package metrics

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/kanzen-io/kanzen/internal/base/series"
)

// TestShape joins the series of values that are not on a list, and leaves out what is disabled.
func TestShape(t *testing.T) {
	manifest := filepath.Join(t.TempDir(), "labels.yaml")
	if err := os.WriteFile(manifest, []byte("allowListMapping:\n  requests_total,code: \"500\"\n  seconds,verb: \"GET\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := NewShape(map[string]string{"requests_total,code": "201,404"}, manifest, []string{"away", ""})
	if err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewRegistry()
	requests := series.NewCounterVec(prometheus.CounterOpts{Name: "requests_total", Help: "h"}, []string{"code", "verb"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "seconds", Help: "h", Buckets: []float64{1, 2}}, []string{"verb"})
	away := prometheus.NewGauge(prometheus.GaugeOpts{Name: "away", Help: "h"})
	r.MustRegister(requests, seconds, away)
	for code, n := range map[string]float64{"201": 1, "404": 2, "200": 4, "500": 8} {
		requests.WithLabelValues(code, "GET").Add(n)
	}
	for verb, d := range map[string]float64{"GET": 0.5, "LIST": 1.5, "POST": 3} {
		seconds.WithLabelValues(verb).Observe(d)
	}
	want := `# HELP cardinality_enforcement_unexpected_categorizations_total Values of labels that were shown as unexpected.
# TYPE cardinality_enforcement_unexpected_categorizations_total counter
cardinality_enforcement_unexpected_categorizations_total 4
# HELP disabled_metrics_total Metrics that are disabled.
# TYPE disabled_metrics_total counter
disabled_metrics_total 1
# HELP requests_total h
# TYPE requests_total counter
requests_total{code="201",verb="GET"} 1
requests_total{code="404",verb="GET"} 2
requests_total{code="unexpected",verb="GET"} 12
# HELP seconds h
# TYPE seconds histogram
seconds_bucket{verb="GET",le="1"} 1
seconds_bucket{verb="GET",le="2"} 1
seconds_bucket{verb="GET",le="+Inf"} 1
seconds_sum{verb="GET"} 0.5
seconds_count{verb="GET"} 1
seconds_bucket{verb="unexpected",le="1"} 0
seconds_bucket{verb="unexpected",le="2"} 1
seconds_bucket{verb="unexpected",le="+Inf"} 2
seconds_sum{verb="unexpected"} 4.5
seconds_count{verb="unexpected"} 2
`
	if err := testutil.GatherAndCompare(s.Of(r), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if err := testutil.GatherAndCompare((*Shape)(nil).Of(r), strings.NewReader("# HELP away h\n# TYPE away gauge\naway 0\n"), "away"); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"code", "requests_total,", ",code", "requests_total,code,more", "a b,c"} {
		if _, err := NewShape(map[string]string{key: "x"}, "", nil); err == nil {
			t.Errorf("%q is taken", key)
		}
	}
	if _, err := NewShape(nil, "no such file", nil); err == nil {
		t.Error("a missing file is taken")
	}
}
