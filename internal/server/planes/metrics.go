package planes

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/base/series"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/server/planes/owners"
)

// shownPlanes is how many planes the metrics name: those with the most requests. All others are one, so that there are no more series
// however many planes there are.
const shownPlanes = 50

// metrics are those of a fleet, in the root's.
type metrics struct {
	fleet           *Fleet
	planes, answers *prometheus.Desc
	servers, free   *prometheus.Desc
	passed, failed  *prometheus.Desc
	wakes           prometheus.Histogram
	moves           prometheus.Histogram
	failures        prometheus.Counter
	up, bytes       *prometheus.Desc
	changes         *series.CounterVec

	passedOn, passedFailed atomic.Int64 // requests
	memory                 func() int64
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
	m.moves = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "kanzen_plane_move_pause_seconds", Help: "How long requests waited for a control plane that moved to another storage class, before it woke there.",
		Buckets: []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10}})
	m.failures = prometheus.NewCounter(prometheus.CounterOpts{Name: "kanzen_plane_move_failures_total", Help: "Moves of control planes to other storage classes that failed at their end."})
	m.up = prometheus.NewDesc("kanzen_planes_storage_up", "Whether the etcd of a storage class of control planes answers.", []string{"class"}, nil)
	m.bytes = prometheus.NewDesc("kanzen_planes_storage_size_bytes", "Size of the database of a storage class of control planes: what is allocated.", []string{"class"}, nil)
	m.passed = prometheus.NewDesc("kanzen_plane_passed_requests_total", "Requests for control planes that were passed on to the server that has them.", nil, nil)
	m.failed = prometheus.NewDesc("kanzen_plane_passed_requests_failed_total", "Requests that were passed on, and that the other server did not answer.", nil, nil)
	m.servers = prometheus.NewDesc("kanzen_plane_servers", "Servers that share control planes, as this one knows them: those that are away have crashed within the last hour, and are not back.", []string{"state"}, nil)
	m.free = prometheus.NewDesc("kanzen_planes_without_owner", "Control planes that are to be awake, and that no server has, for longer than the others take to notice that a server has crashed.", nil, nil)
	m.changes = series.NewCounterVec(prometheus.CounterOpts{Name: "kanzen_plane_owner_changes_total", Help: "Control planes that this server has passed on (Moved), or has taken from another one (Stopped, TakenOver)."}, []string{"why"})
	for _, why := range []string{owners.Moved, owners.Stopped, owners.TakenOver} {
		m.changes.WithLabelValues(why)
	}
	m.memory = newMemory()
	r.MustRegister(m, m.wakes, m.changes, m.moves, m.failures)
	return m
}

// Describe is part of prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.planes, m.answers, m.servers, m.free, m.passed, m.failed, m.up, m.bytes} {
		ch <- d
	}
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
	m.collectServers(ch)
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

// collectServers tells of the servers.
func (m *metrics) collectServers(ch chan<- prometheus.Metric) {
	states, free := map[string]int{v1alpha1.ServerRunning: 0, v1alpha1.ServerLeaving: 0, v1alpha1.ServerAway: 0}, 0
	if o := m.fleet.owners.Load(); o != nil {
		for _, k := range o.Servers() {
			switch {
			case k.Server == nil:
				states[v1alpha1.ServerAway]++
			case k.Leaving:
				states[v1alpha1.ServerLeaving]++
			default:
				states[v1alpha1.ServerRunning]++
			}
		}
		free = len(o.Free())
	} else {
		states[v1alpha1.ServerRunning] = 1
	}
	for state, n := range states {
		ch <- prometheus.MustNewConstMetric(m.servers, prometheus.GaugeValue, float64(n), state)
	}
	ch <- prometheus.MustNewConstMetric(m.free, prometheus.GaugeValue, float64(free))
	ch <- prometheus.MustNewConstMetric(m.passed, prometheus.CounterValue, float64(m.passedOn.Load()))
	ch <- prometheus.MustNewConstMetric(m.failed, prometheus.CounterValue, float64(m.passedFailed.Load()))
}

// woken says how long a plane took to wake.
func (m *metrics) woken(took time.Duration) { m.wakes.Observe(took.Seconds()) }
