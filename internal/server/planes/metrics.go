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
	moves           prometheus.Histogram
	failures        prometheus.Counter
	up, bytes       *prometheus.Desc
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
	m.moves = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "kanzen_plane_move_pause_seconds", Help: "How long requests waited for a control plane that moved to another storage class, before it woke there.",
		Buckets: []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10}})
	m.failures = prometheus.NewCounter(prometheus.CounterOpts{Name: "kanzen_plane_move_failures_total", Help: "Moves of control planes to other storage classes that failed at their end."})
	m.up = prometheus.NewDesc("kanzen_planes_storage_up", "Whether the etcd of a storage class of control planes answers.", []string{"class"}, nil)
	m.bytes = prometheus.NewDesc("kanzen_planes_storage_size_bytes", "Size of the database of a storage class of control planes: what is allocated.", []string{"class"}, nil)
	r.MustRegister(m, m.wakes, m.passed, m.moves, m.failures)
	return m
}

// Describe is part of prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.planes
	ch <- m.answers
	ch <- m.up
	ch <- m.bytes
}

// Collect is part of prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	all := m.fleet.all()
	m.collectClasses(ch)
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

// collectClasses tells of the storage classes.
func (m *metrics) collectClasses(ch chan<- prometheus.Metric) {
	for _, name := range m.fleet.classNames() {
		c, up := m.fleet.classes[name], 1.0
		if c.isAway() != nil {
			up = 0
		}
		c.mu.Lock()
		size := c.size.Bytes
		c.mu.Unlock()
		ch <- prometheus.MustNewConstMetric(m.up, prometheus.GaugeValue, up, name)
		ch <- prometheus.MustNewConstMetric(m.bytes, prometheus.GaugeValue, float64(size), name)
	}
}

// moved says how long requests had to wait for a move.
func (m *metrics) moved(took time.Duration, err error) {
	if err != nil {
		m.failures.Inc()
		return
	}
	m.moves.Observe(took.Seconds())
}

// woken says how long a plane took to wake.
func (m *metrics) woken(took time.Duration) { m.wakes.Observe(took.Seconds()) }
