package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
)

// Metrics are the metrics of requests to etcd and of waiting for the log, under kube-apiserver's names. What views can
// tell themselves is read from them when metrics are requested (Collector).
type Metrics struct {
	// mu is held to make the series of a view and to drop them, so that a view that is forgotten leaves none.
	mu sync.Mutex

	seconds          *histogram.Vec
	requests, failed *series.CounterVec
	compared         *series.CounterVec
	waits            *histogram.Vec
	lists, loads     *histogram.Vec
}

// NewMetrics makes the metrics of a store and registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	operation, resource := []string{"operation", "group", "resource"}, []string{"group", "resource"}
	m := &Metrics{
		seconds: histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{Name: "etcd_request_duration_seconds", Help: "How long requests to etcd took.",
			Buckets: requestBuckets}), operation),
		requests: series.NewCounterVec(prometheus.CounterOpts{Name: "etcd_requests_total", Help: "Requests to etcd."}, operation),
		failed:   series.NewCounterVec(prometheus.CounterOpts{Name: "etcd_request_errors_total", Help: "Requests to etcd that failed."}, operation),
		compared: series.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_storage_consistency_checks_total", Help: "Comparisons of views with etcd, by what came of them."},
			[]string{"group", "resource", "status"}),
		waits: histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{Name: "apiserver_watch_cache_read_wait_seconds",
			Help:    "How long reads waited until the view had everything that they must see.",
			Buckets: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3}}), resource),
		lists: histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{Name: "apiserver_storage_list_duration_seconds",
			Help: "How long lists from etcd took, with all their pages.", Buckets: requestBuckets}), []string{"streamed", "group", "resource"}),
		loads: histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{Name: "apiserver_watch_cache_initialization_duration_seconds",
			Help: "How long it took to load views from etcd.", Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600}}), resource),
	}
	r.MustRegister(m.seconds, m.requests, m.failed, m.compared, m.waits, m.lists, m.loads)
	return m
}

// requestBuckets are in seconds.
var requestBuckets = []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60}

// operation is a kind of request to etcd.
type operation int

const (
	etcdCreate operation = iota
	etcdUpdate
	etcdDelete
	etcdGet
	etcdList
	etcdCount
	operations
)

var operationNames = [operations]string{"create", "update", "delete", "get", "list", "listWithCount"}

// counts are what a view counts about itself.
type counts struct {
	received   atomic.Int64 // events of the log
	taken      atomic.Int64 // events that came while it was loaded
	dispatched atomic.Int64 // changes that its watchers can get
	loads      atomic.Int64
	fresh      atomic.Int64 // reads that waited for the newest revision
	stale      atomic.Int64 // those of them that it did not reach in time
	// Lists by where they were answered from.
	memory, index, etcd listCounts

	// The time series of requests, made by the first one.
	requests [operations]atomic.Pointer[requestSeries]
	waits    atomic.Pointer[histogram.Histogram]
	gone     bool // the view is forgotten, and has no series; guarded by Metrics.mu
}

type listCounts struct{ lists, read, returned atomic.Int64 }

type requestSeries struct {
	seconds  prometheus.Observer
	requests prometheus.Counter
}

// asked measures a request to etcd that began at a time.
func (v *View) asked(op operation, began time.Time, err error) {
	labels := []string{operationNames[op], v.kind.Resource.Group, v.kind.Resource.Resource}
	s := v.counts.requests[op].Load()
	if s == nil {
		v.unlessGone(func(m *Metrics) {
			s = &requestSeries{m.seconds.WithLabelValues(labels...), m.requests.WithLabelValues(labels...)}
			v.counts.requests[op].Store(s)
		})
	}
	if s == nil {
		return
	}
	s.seconds.Observe(time.Since(began).Seconds())
	s.requests.Inc()
	if err != nil {
		v.unlessGone(func(m *Metrics) { m.failed.WithLabelValues(labels...).Inc() })
	}
}

// listedFromEtcd measures a list that began at a time, of all pages together.
func (v *View) listedFromEtcd(began time.Time) {
	of, seconds := v.kind.Resource, time.Since(began).Seconds()
	const streamed = "false" // in pages, not by RangeStream
	v.unlessGone(func(m *Metrics) { m.lists.WithLabelValues(streamed, of.Group, of.Resource).Observe(seconds) })
}

// wasLoaded measures a load of the view that began at a time.
func (v *View) wasLoaded(began time.Time) {
	of, seconds := v.kind.Resource, time.Since(began).Seconds()
	v.unlessGone(func(m *Metrics) { m.loads.WithLabelValues(of.Group, of.Resource).Observe(seconds) })
}

// unlessGone calls f, which makes series of the view, unless the view is forgotten.
func (v *View) unlessGone(f func(m *Metrics)) {
	m := v.store.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	if !v.counts.gone {
		f(m)
	}
}

// dropSeries removes the series of a view that is to be forgotten.
func (v *View) dropSeries() {
	m := v.store.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	v.counts.gone = true
	of := prometheus.Labels{"group": v.kind.Resource.Group, "resource": v.kind.Resource.Resource}
	for _, vec := range []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}{m.seconds, m.requests, m.failed, m.compared, m.waits, m.lists, m.loads} {
		vec.DeletePartialMatch(of)
	}
}

// Fresh is Store.Fresh for a read of this view.
func (v *View) Fresh(ctx context.Context) error {
	began := v.store.clock.Now()
	err := v.store.Fresh(ctx)
	v.counts.fresh.Add(1)
	if err != nil {
		v.counts.stale.Add(1)
	}
	wait := v.counts.waits.Load()
	if wait == nil {
		v.unlessGone(func(m *Metrics) {
			wait = m.waits.WithLabelValues(v.kind.Resource.Group, v.kind.Resource.Resource)
			v.counts.waits.Store(wait)
		})
	}
	if wait != nil {
		wait.Observe(v.store.clock.Since(began).Seconds())
	}
	return err
}

// Listed counts a list of this view that has read and returned some items of a snapshot.
func (s *Snapshot) Listed(v *View, read, returned int) {
	of := &v.counts.memory
	switch {
	case s.items == nil:
		of = &v.counts.etcd
	case s.shared:
		of = &v.counts.index
	}
	of.lists.Add(1)
	of.read.Add(int64(read))
	of.returned.Add(int64(returned))
}

// countTimeout bounds what etcd is asked for metrics.
const countTimeout = 5 * time.Second

// Polls say how long what etcd has told holds for metrics; at 0 etcd is not asked, and there is no such metric.
type Polls struct {
	// Objects is about the number of objects of a resource.
	Objects time.Duration
	// Size is about the size of a database.
	Size time.Duration
}

// Collector tells the metrics of views when they are requested. It loads no view: what is not in memory is counted by
// etcd, no more often than Polls says.
type Collector struct {
	cluster *Cluster
	polls   Polls
	made    func()

	mu      sync.Mutex
	counted map[string]counted // by prefix; guarded by mu
	sizes   map[*Store]counted // guarded by mu
}

type counted struct {
	n  int64
	at time.Time
}

// Collector returns the collector of the cluster's views. It first calls made, which makes those that there are to be.
func (c *Cluster) Collector(p Polls, made func()) *Collector {
	return &Collector{cluster: c, polls: p, made: made, counted: map[string]counted{}, sizes: map[*Store]counted{}}
}

func viewDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"group", "resource"}, labels...), nil)
}

// descs are the descriptions of what views tell. They do not change.
var descs = struct {
	objects, storageObjects, size, packed, database, received, taken, dispatched, loads, revision, window, reads *prometheus.Desc
	unreadable, lists, read, returned, evaluated                                                                 *prometheus.Desc
}{
	objects:        viewDesc("apiserver_resource_objects", "Stored objects, -1 if they could not be counted."),
	storageObjects: prometheus.NewDesc("apiserver_storage_objects", "Old name of apiserver_resource_objects.", []string{"resource"}, nil),
	size:           viewDesc("apiserver_resource_size_estimate_bytes", "Bytes of the stored objects of views in memory."),
	packed:         viewDesc("kanzen_storage_packed_bytes", "Bytes of the stored objects of views in memory that are compressed, as many as they were before."),
	unreadable:     viewDesc("kanzen_storage_unreadable_objects", "Stored values that cannot be decrypted."),
	database:       prometheus.NewDesc("apiserver_storage_size_bytes", "Size of the storage database file physically allocated in bytes.", []string{"storage_cluster_id"}, nil),
	received:       viewDesc("apiserver_storage_events_received_total", "Events received from etcd."),
	taken:          viewDesc("apiserver_watch_cache_events_received_total", "Events received by views in memory."),
	dispatched:     viewDesc("apiserver_watch_cache_events_dispatched_total", "Events that views offered to their watchers."),
	loads:          viewDesc("apiserver_watch_cache_initializations_total", "How often the view was loaded from etcd."),
	revision:       viewDesc("apiserver_watch_cache_resource_version", "The revision that the view has, its 15 last digits."),
	window:         viewDesc("watch_cache_capacity", "Events that the view keeps for watches that begin in the past."),
	reads:          viewDesc("apiserver_watch_cache_consistent_read_total", "Reads that had to see every write before.", "success", "fallback"),
	lists:          viewDesc("apiserver_storage_list_total", "Lists answered from etcd, with loads of the view, and from memory.", "index", "storage"),
	read:           viewDesc("apiserver_storage_list_fetched_objects_total", "Objects read or looked at for them.", "index", "storage"),
	evaluated:      viewDesc("apiserver_storage_list_evaluated_objects_total", "Objects compared with a selector for them.", "storage"),
	returned:       viewDesc("apiserver_storage_list_returned_objects_total", "Objects returned by them.", "storage"),
}

// Describe is part of prometheus.Collector. It describes nothing, which leaves the checks to the time of Collect.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect is part of prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made()
	var all []*View
	for n, s := range c.cluster.stores {
		if size, ok := c.size(ctx, s); ok {
			ch <- prometheus.MustNewConstMetric(descs.database, prometheus.GaugeValue, float64(size), fmt.Sprintf("etcd-%d", n))
		}
		all = append(all, s.allViews()...)
	}
	views := map[string]bool{}
	for _, v := range all {
		if v.kind.Resource.Resource != "" {
			views[v.kind.Prefix] = true
			c.collect(ctx, v, ch)
		}
	}
	for prefix := range c.counted {
		if !views[prefix] {
			delete(c.counted, prefix)
		}
	}
}

func (c *Collector) collect(ctx context.Context, v *View, ch chan<- prometheus.Metric) {
	of := v.kind.Resource
	tell := func(d *prometheus.Desc, t prometheus.ValueType, value int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, t, float64(value), append([]string{of.Group, of.Resource}, labels...)...)
	}
	v.mu.Lock()
	objects, bytes, plain, inMemory := int64(v.items.Len()), v.bytes, v.plain, v.state == loaded
	revision, events, broken := v.passedLocked(), len(v.window.events), int64(len(v.broken))
	v.mu.Unlock()
	n := &v.counts
	tell(descs.received, prometheus.CounterValue, n.received.Load())
	if inMemory {
		delete(c.counted, v.kind.Prefix)
		tell(descs.revision, prometheus.GaugeValue, revision%1e15)
		tell(descs.window, prometheus.GaugeValue, int64(events))
	}
	if broken > 0 {
		tell(descs.unreadable, prometheus.GaugeValue, broken)
	}
	if c.polls.Objects > 0 {
		if inMemory {
			tell(descs.size, prometheus.GaugeValue, bytes)
			if bytes > plain {
				tell(descs.packed, prometheus.GaugeValue, bytes-plain)
			}
		} else {
			objects = c.count(ctx, v)
		}
		tell(descs.objects, prometheus.GaugeValue, objects)
		ch <- prometheus.MustNewConstMetric(descs.storageObjects, prometheus.GaugeValue, float64(objects), of.String())
	}
	if n.loads.Load() == 0 {
		return // the rest is of views that have been used
	}
	tell(descs.taken, prometheus.CounterValue, n.taken.Load())
	tell(descs.dispatched, prometheus.CounterValue, n.dispatched.Load())
	tell(descs.loads, prometheus.CounterValue, n.loads.Load())
	tell(descs.reads, prometheus.CounterValue, n.fresh.Load()-n.stale.Load(), "true", "false")
	if stale := n.stale.Load(); stale > 0 {
		tell(descs.reads, prometheus.CounterValue, stale, "false", "false")
	}
	const fromEtcd, fromMemory = "etcd", "watchcache" // in upstream's words
	tell(descs.lists, prometheus.CounterValue, n.etcd.lists.Load(), "", fromEtcd)
	tell(descs.read, prometheus.CounterValue, n.etcd.read.Load(), "", fromEtcd)
	tell(descs.evaluated, prometheus.CounterValue, n.etcd.read.Load(), fromEtcd)
	tell(descs.returned, prometheus.CounterValue, n.etcd.returned.Load(), fromEtcd)
	tell(descs.lists, prometheus.CounterValue, n.memory.lists.Load(), "", fromMemory)
	tell(descs.read, prometheus.CounterValue, n.memory.read.Load(), "", fromMemory)
	if n.index.lists.Load() > 0 {
		index := "f:" + v.kind.Trigger // as upstream names the index of a field
		tell(descs.lists, prometheus.CounterValue, n.index.lists.Load(), index, fromMemory)
		tell(descs.read, prometheus.CounterValue, n.index.read.Load(), index, fromMemory)
	}
	tell(descs.returned, prometheus.CounterValue, n.memory.returned.Load()+n.index.returned.Load(), fromMemory)
}

// count returns how many objects a view has that is not in memory, -1 if that is not known. c.mu is held.
func (c *Collector) count(ctx context.Context, v *View) int64 {
	now := v.store.clock.Now()
	have, ok := c.counted[v.kind.Prefix]
	if ok && now.Sub(have.at) < c.polls.Objects {
		return have.n
	}
	began := time.Now()
	n, err := (&Snapshot{view: v}).countPast(ctx, Range{})
	v.asked(etcdCount, began, err)
	if err != nil {
		return -1
	}
	c.counted[v.kind.Prefix] = counted{n, now}
	return n
}

// size returns the bytes of a store's database; not ok if they are not known, or not to be asked for. c.mu is held.
func (c *Collector) size(ctx context.Context, s *Store) (bytes int64, ok bool) {
	if c.polls.Size <= 0 {
		return 0, false
	}
	now := s.clock.Now()
	if have, ok := c.sizes[s]; ok && now.Sub(have.at) < c.polls.Size {
		return have.n, true
	}
	size, err := s.Size(ctx)
	if err != nil {
		return 0, false
	}
	c.sizes[s] = counted{size.Bytes, now}
	return size.Bytes, true
}

// ViewState is what a view holds now.
type ViewState struct {
	Resource                         schema.GroupResource
	Loaded                           bool
	Objects, Watchers, Window        int
	Bytes, Events, Revision, Unknown int64 // Unknown are values that cannot be decrypted
}

// State returns what the view holds now. It does not load it.
func (v *View) State() ViewState {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := ViewState{Resource: v.kind.Resource, Loaded: v.state == loaded, Objects: v.items.Len(), Bytes: v.bytes, Window: len(v.window.events),
		Events: v.counts.received.Load(), Unknown: int64(len(v.broken))}
	if s.Loaded {
		s.Revision = v.passedLocked()
	}
	for _, g := range v.watchers.groups {
		s.Watchers += len(g)
	}
	return s
}

// Head returns the newest revision of etcd itself.
func (s *Store) Head(ctx context.Context) (int64, error) { return s.db.Head(ctx) }
