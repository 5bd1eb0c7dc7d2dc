package flowcontrol

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
)

// Metrics are the metrics of flow control, under kube-apiserver's names.
type Metrics struct {
	byFlow   flowVectors
	byLevel  levelVectors
	fairFrac prometheus.Gauge
	current  *timed
	reading  phases
	writing  phases
}

// phases count the requests of one kind (reading or mutating) that execute and that wait.
type phases struct{ executing, waiting phase }

type phase struct {
	now  atomic.Int64
	most atomic.Int64 // since the last take
	as   *timedValue
}

func (p *phase) add(delta int64) {
	n := p.now.Add(delta)
	p.as.set(float64(n))
	for m := p.most.Load(); n > m && !p.most.CompareAndSwap(m, n); m = p.most.Load() {
	}
}

// take returns the greatest number of concurrent requests since the last call.
func (p *phase) take() float64 { return float64(p.most.Swap(p.now.Load())) }

type flowVectors struct {
	rejected, dispatched, noRoom                                  *series.CounterVec
	inQueue, seatsInQueue, executing, executingSeats, concurrency *series.GaugeVec
	queueLength, watchers, seats, waitSeconds, executionSeconds   *histogram.Vec
}

type levelVectors struct {
	limit, nominal, lower, upper, current, high, average, deviation, smoothed, target, r, dispatchR, latestS *series.GaugeVec
	nextS, nextDiscountedS                                                                                   *series.GaugeVec
	epochs                                                                                                   *series.CounterVec
	requestUtilization, seatUtilization, demand                                                              *timed
}

const namespace, subsystem = "apiserver", "flowcontrol"

// NewMetrics makes the metrics and registers them.
func NewMetrics(r prometheus.Registerer, now func() time.Time) *Metrics {
	both, one := []string{"priority_level", "flow_schema"}, []string{"priority_level"}
	name := func(n string) string { return prometheus.BuildFQName(namespace, subsystem, n) }
	counter := func(n, help string, labels []string, more ...string) *series.CounterVec {
		v := series.NewCounterVec(prometheus.CounterOpts{Name: name(n), Help: help}, append(labels[:len(labels):len(labels)], more...))
		r.MustRegister(v)
		return v
	}
	gauge := func(n, help string, labels []string, more ...string) *series.GaugeVec {
		v := series.NewGaugeVec(prometheus.GaugeOpts{Name: name(n), Help: help}, append(labels[:len(labels):len(labels)], more...))
		r.MustRegister(v)
		return v
	}
	histogram := func(n, help string, buckets []float64, labels []string, more ...string) *histogram.Vec {
		v := histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{Name: name(n), Help: help, Buckets: buckets}), append(labels[:len(labels):len(labels)], more...))
		r.MustRegister(v)
		return v
	}
	timedBy := func(n, help string, buckets []float64, labels ...string) *timed {
		v := newTimed(name(n), help, buckets, labels, now)
		r.MustRegister(v)
		return v
	}
	seconds := []float64{0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30}
	m := &Metrics{fairFrac: prometheus.NewGauge(prometheus.GaugeOpts{Name: name("seat_fair_frac"), Help: "The part of its demand that a level gets where no limit of its own intervenes."})}
	r.MustRegister(m.fairFrac)
	m.byFlow = flowVectors{
		rejected:         counter("rejected_requests_total", "Requests refused, by reason.", both, "reason"),
		dispatched:       counter("dispatched_requests_total", "Requests that began to be served.", both),
		noRoom:           counter("request_dispatch_no_accommodation_total", "How often the next request did not fit into the seats that were free.", both),
		inQueue:          gauge("current_inqueue_requests", "Requests waiting in queues.", both),
		seatsInQueue:     gauge("current_inqueue_seats", "Seats that requests in queues wait for.", both),
		executing:        gauge("current_executing_requests", "Requests being served, watches while they begin.", both),
		executingSeats:   gauge("current_executing_seats", "Seats in use.", both),
		concurrency:      gauge("request_concurrency_in_use", "Seats in use.", both),
		queueLength:      histogram("request_queue_length_after_enqueue", "Length of the queue that a request has joined.", []float64{0, 10, 25, 50, 100, 250, 500, 1000}, both),
		watchers:         histogram("watch_count_samples", "Watches that a write is told to.", []float64{0, 1, 10, 100, 1000, 10000}, both),
		seats:            histogram("work_estimated_seats", "Seats that requests are estimated to need.", []float64{1, 2, 4, 8, 16, 32, 64, 100}, both),
		waitSeconds:      histogram("request_wait_duration_seconds", "How long requests waited in queues.", seconds, both, "execute"),
		executionSeconds: histogram("request_execution_seconds", "How long requests were served.", seconds, both, "type"),
	}
	percent := []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1}
	m.byLevel = levelVectors{
		limit:           gauge("request_concurrency_limit", "Seats that are the level's own.", one),
		nominal:         gauge("nominal_limit_seats", "Seats that are the level's own.", one),
		lower:           gauge("lower_limit_seats", "Seats left to a level that lends all that it lends.", one),
		upper:           gauge("upper_limit_seats", "Seats of a level that borrows all that it may.", one),
		current:         gauge("current_limit_seats", "Seats that the level may use now.", one),
		high:            gauge("demand_seats_high_watermark", "The most seats wanted in the last period.", one),
		average:         gauge("demand_seats_average", "Seats wanted on average in the last period.", one),
		deviation:       gauge("demand_seats_stdev", "Standard deviation of the seats wanted in the last period.", one),
		smoothed:        gauge("demand_seats_smoothed", "Smoothed demand of seats.", one),
		target:          gauge("target_seats", "Seats the level would be given if there were no end of them.", one),
		r:               gauge("current_r", "Virtual time of the level's queues.", one),
		dispatchR:       gauge("dispatch_r", "Virtual time when a request last began to be served.", one),
		latestS:         gauge("latest_s", "Virtual start of the request that last began to be served.", one),
		nextS:           gauge("next_s_bounds", "Least and greatest virtual start of the next requests of queues.", one, "bound"),
		nextDiscountedS: gauge("next_discounted_s_bounds", "The same, less the work under way.", one, "bound"),
		epochs:          counter("epoch_advance_total", "How often virtual time was wound back, which this server never needs.", one, "success"),
		requestUtilization: timedBy("priority_level_request_utilization", "Requests as a part of the most there may be, over time.",
			[]float64{0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1}, "phase", "priority_level"),
		seatUtilization: timedBy("priority_level_seat_utilization", "Seats in use as a part of those there are, over time.", percent, "phase", "priority_level"),
		demand: timedBy("demand_seats", "Seats wanted as a part of those that are the level's own, over time.",
			[]float64{0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.7, 2, 2.8, 4, 6}, "priority_level"),
	}
	m.current = timedBy("read_vs_write_current_requests", "Requests being served, over time, as a part of all that may be.",
		append([]float64{0.001, 0.01}, percent[1:]...), "phase", "request_kind")
	for kind, p := range map[string]*phases{"readOnly": &m.reading, "mutating": &m.writing} {
		p.executing.as, p.waiting.as = m.current.with("executing", kind), m.current.with("waiting", kind)
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "apiserver_current_inqueue_requests",
			Help:        "The most requests that waited in queues at a time since this was last asked.",
			ConstLabels: prometheus.Labels{"request_kind": kind}}, p.waiting.take))
	}
	return m
}

func (m *Metrics) fair(part float64) { m.fairFrac.Set(part) }

func (m *Metrics) phasesOf(verb string) *phases {
	switch verb {
	case "get", "list", "watch":
		return &m.reading
	}
	return &m.writing
}

// of sets the limit of concurrent requests, which both kinds share.
func (m *Metrics) of(total int) {
	for _, p := range []*phases{&m.reading, &m.writing} {
		p.executing.as.divideBy(float64(max(total, 1)))
		p.waiting.as.divideBy(float64(max(total, 1)))
	}
}

// forgetLevel deletes the metrics of a level that no longer exists.
func (m *Metrics) forgetLevel(name string) {
	match := prometheus.Labels{"priority_level": name}
	v := &m.byLevel
	for _, g := range []*series.GaugeVec{v.limit, v.nominal, v.lower, v.upper, v.current, v.high, v.average, v.deviation, v.smoothed,
		v.target, v.r, v.dispatchR, v.latestS, v.nextS, v.nextDiscountedS} {
		g.DeletePartialMatch(match)
	}
	for _, t := range []*timed{v.requestUtilization, v.seatUtilization, v.demand} {
		t.forget(name)
	}
}

// flowMetrics are the metrics of one schema, resolved once.
type flowMetrics struct {
	all                                                         *Metrics
	v                                                           *flowVectors
	level, schema                                               string
	dispatched, noRoom                                          prometheus.Counter
	inQueue, seatsInQueue, executing, executingSeats, inUse     prometheus.Gauge
	queueLength, watchers, seats, waitedServed, waitedNot, took prometheus.Observer
}

// flow returns the metrics of a flow. They are made with the first request: most schemas never have one.
func (m *Metrics) flow(level, schema string) func() *flowMetrics {
	return sync.OnceValue(func() *flowMetrics { return m.newFlow(level, schema) })
}

func (m *Metrics) newFlow(level, schema string) *flowMetrics {
	v := &m.byFlow
	return &flowMetrics{all: m, v: v, level: level, schema: schema,
		dispatched: v.dispatched.WithLabelValues(level, schema), noRoom: v.noRoom.WithLabelValues(level, schema),
		inQueue: v.inQueue.WithLabelValues(level, schema), seatsInQueue: v.seatsInQueue.WithLabelValues(level, schema),
		executing: v.executing.WithLabelValues(level, schema), executingSeats: v.executingSeats.WithLabelValues(level, schema),
		inUse: v.concurrency.WithLabelValues(level, schema), queueLength: v.queueLength.WithLabelValues(level, schema),
		watchers: v.watchers.WithLabelValues(level, schema), seats: v.seats.WithLabelValues(level, schema),
		waitedServed: v.waitSeconds.WithLabelValues(level, schema, "true"), waitedNot: v.waitSeconds.WithLabelValues(level, schema, "false"),
		took: v.executionSeconds.WithLabelValues(level, schema, "regular"),
	}
}

func (m *flowMetrics) rejected(reason string) {
	m.v.rejected.WithLabelValues(m.level, m.schema, reason).Inc()
}

func (m *flowMetrics) waited(served bool, d time.Duration) {
	o := m.waitedNot
	if served {
		o = m.waitedServed
	}
	o.Observe(d.Seconds())
}

func (f *flow) noAccommodation() { f.metrics().noRoom.Inc() }

func (f *flow) queued(t *ticket, sign int64) {
	f.metrics().inQueue.Add(float64(sign))
	f.metrics().seatsInQueue.Add(float64(sign) * float64(t.seats()))
	f.metrics().all.phasesOf(t.details.info.Verb).waiting.add(sign)
}

func (f *flow) started(t *ticket) {
	f.metrics().dispatched.Inc()
	f.metrics().executing.Inc()
	f.metrics().executingSeats.Add(float64(t.seats()))
	f.metrics().inUse.Add(float64(t.seats()))
}

func (f *flow) finished(_ *ticket, took time.Duration) {
	f.metrics().executing.Dec()
	f.metrics().took.Observe(took.Seconds())
}

func (f *flow) freed(t *ticket) {
	f.metrics().executingSeats.Sub(float64(t.seats()))
	f.metrics().inUse.Sub(float64(t.seats()))
}

// levelMetrics are the metrics of one level.
type levelMetrics struct {
	v                                     *levelVectors
	name                                  string
	r                                     prometheus.Gauge
	waiting, executing, seats, seatDemand *timedValue
	dispatchR, latestS                    prometheus.Gauge
	nextS                                 [4]prometheus.Gauge
	dispatched                            int // requests dispatched when the gauges were last set
}

func (m *Metrics) level(name string) levelMetrics {
	v := &m.byLevel
	return levelMetrics{v: v, name: name, r: v.r.WithLabelValues(name),
		waiting: v.requestUtilization.with("waiting", name), executing: v.requestUtilization.with("executing", name),
		seats: v.seatUtilization.with("executing", name), seatDemand: v.demand.with(name),
		dispatchR: v.dispatchR.WithLabelValues(name), latestS: v.latestS.WithLabelValues(name),
		nextS: [4]prometheus.Gauge{v.nextS.WithLabelValues(name, "min"), v.nextS.WithLabelValues(name, "max"),
			v.nextDiscountedS.WithLabelValues(name, "min"), v.nextDiscountedS.WithLabelValues(name, "max")}}
}

func (m *levelMetrics) bounds(s *share) {
	m.v.limit.WithLabelValues(m.name).Set(float64(s.nominal))
	m.v.nominal.WithLabelValues(m.name).Set(float64(s.nominal))
	m.v.lower.WithLabelValues(m.name).Set(float64(s.least))
	m.v.upper.WithLabelValues(m.name).Set(float64(s.most))
	m.seatDemand.divideBy(float64(max(s.nominal, 1)))
}

func (m *levelMetrics) adjusted(s *share) {
	m.v.high.WithLabelValues(m.name).Set(float64(s.demand.high))
	m.v.average.WithLabelValues(m.name).Set(s.demand.average)
	m.v.deviation.WithLabelValues(m.name).Set(s.demand.deviation)
	m.v.smoothed.WithLabelValues(m.name).Set(s.demand.smoothed)
	m.v.target.WithLabelValues(m.name).Set(s.target)
	m.v.current.WithLabelValues(m.name).Set(float64(s.capacity))
}

func (m *levelMetrics) capacity(l limits) {
	m.waiting.divideBy(float64(max(l.queues, 1) * max(l.length, 1)))
	m.executing.divideBy(float64(max(l.capacity, 1)))
	m.seats.divideBy(float64(max(l.capacity, 1)))
}

// observe updates the metrics from a level's queues.
func (m *levelMetrics) observe(now time.Time, s *queueSet) {
	m.r.Set(float64(s.r))
	if s.dispatched > m.dispatched {
		m.dispatched = s.dispatched
		m.dispatchR.Set(float64(s.last.r))
		m.latestS.Set(float64(s.last.start))
		m.nextS[0].Set(float64(s.last.least))
		m.nextS[1].Set(float64(s.last.most))
		m.nextS[2].Set(float64(s.last.leastLess))
		m.nextS[3].Set(float64(s.last.mostLess))
	}
	m.waiting.setAt(now, float64(s.waiting))
	m.executing.setAt(now, float64(s.executing))
	m.seats.setAt(now, float64(s.seatsInUse))
	m.seatDemand.setAt(now, float64(s.seatsInUse+s.seatsWaiting))
}
