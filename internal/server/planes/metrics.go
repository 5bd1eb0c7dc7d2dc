package planes

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// shownPlanes is how many planes the metrics name: those with the most requests. All others are one, so that there are no more series
// however many planes there are.
const shownPlanes = 50

// metrics are those of a fleet, in the root's.
type metrics struct {
	fleet           *Fleet
	planes, answers *prometheus.Desc
	wakes           prometheus.Histogram
	passed          prometheus.Counter
}

func newMetrics(f *Fleet, r prometheus.Registerer) *metrics {
	m := &metrics{
		fleet:  f,
		planes: prometheus.NewDesc("kanzen_planes", "Control planes below this one, by whether they are awake.", []string{"state"}, nil),
		answers: prometheus.NewDesc("kanzen_plane_requests_total", "Requests to control planes below this one: the 50 with the most by name, the others together.",
			[]string{"plane"}, nil),
		wakes: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "kanzen_plane_wake_duration_seconds", Help: "How long requests waited for a control plane to wake.",
			Buckets: []float64{.002, .005, .01, .02, .05, .1, .2, .5, 1, 5}}),
	}
	m.passed = prometheus.NewCounter(prometheus.CounterOpts{Name: "kanzen_plane_passed_requests_total", Help: "Requests for control planes that were passed on to the server that has them."})
	r.MustRegister(m, m.wakes, m.passed)
	return m
}

// Describe is part of prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.planes
	ch <- m.answers
}

// Collect is part of prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	all := m.fleet.all()
	states := map[string]int{awake: 0, asleep: 0}
	counts := make([]int64, len(all))
	order := make([]int, len(all))
	for n, h := range all {
		if h.awake() {
			states[awake]++
		} else {
			states[asleep]++
		}
		counts[n], order[n] = h.answered.Load(), n
	}
	for state, n := range states {
		ch <- prometheus.MustNewConstMetric(m.planes, prometheus.GaugeValue, float64(n), state)
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(all[a].name, all[b].name))
	})
	others := int64(0)
	for place, n := range order {
		switch {
		case place >= shownPlanes:
			others += counts[n]
		case counts[n] > 0:
			ch <- prometheus.MustNewConstMetric(m.answers, prometheus.CounterValue, float64(counts[n]), all[n].name)
		}
	}
	if others > 0 {
		ch <- prometheus.MustNewConstMetric(m.answers, prometheus.CounterValue, float64(others), "other")
	}
}

// woken says how long a plane took to wake.
func (m *metrics) woken(took time.Duration) { m.wakes.Observe(took.Seconds()) }
