package recorder

import (
	"context"
	"maps"
	"math"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// This file keeps an hour of what the server did and had. Who begins to look because something is wrong sees how it was before.

const (
	// SeriesStep is the time between two values of a series, and seriesValues how many are kept.
	SeriesStep   = 5 * time.Second
	seriesValues = int(time.Hour / SeriesStep)
)

// measures are what there is a series of, and in which unit. The part of the name before the dot says which belong together.
var measures = [...]struct{ name, unit string }{
	reqGet: {"requests.get", v1alpha1.PerSecond}, reqList: {"requests.list", v1alpha1.PerSecond}, reqWatch: {"requests.watch", v1alpha1.PerSecond},
	reqCreate: {"requests.create", v1alpha1.PerSecond}, reqUpdate: {"requests.update", v1alpha1.PerSecond}, reqPatch: {"requests.patch", v1alpha1.PerSecond},
	reqDelete: {"requests.delete", v1alpha1.PerSecond}, reqOther: {"requests.other", v1alpha1.PerSecond},
	refused: {"answers.refused", v1alpha1.PerSecond}, failed: {"answers.failed", v1alpha1.PerSecond},
	p50: {"latency.p50", v1alpha1.Seconds}, p99: {"latency.p99", v1alpha1.Seconds},
	storeLatency: {"store.latency", v1alpha1.Seconds}, storeWrites: {"writes.revisions", v1alpha1.PerSecond}, storeBytes: {"size.database", v1alpha1.Bytes},
	seatsInUse: {"seats.inUse", v1alpha1.Count}, seatsWaiting: {"seats.waiting", v1alpha1.Count},
	answered: {"traffic.answers", v1alpha1.BytesPerSecond}, openWatches: {"watches.open", v1alpha1.Count},
	stageAccess: {"stages.access", v1alpha1.Seconds}, stageQueue: {"stages.queue", v1alpha1.Seconds}, stageAdmission: {"stages.webhooks", v1alpha1.Seconds},
	stageStore: {"stages.etcd", v1alpha1.Seconds}, stageAnswer: {"stages.answer", v1alpha1.Seconds}, stageRest: {"stages.rest", v1alpha1.Seconds},
	heap: {"memory.objects", v1alpha1.Bytes}, memory: {"memory.process", v1alpha1.Bytes}, processor: {"processor.used", v1alpha1.Count},
}

// The places of measures in a point.
const (
	reqGet = iota
	reqList
	reqWatch
	reqCreate
	reqUpdate
	reqPatch
	reqDelete
	reqOther
	refused
	failed
	p50
	p99
	storeLatency
	storeWrites
	storeBytes
	seatsInUse
	seatsWaiting
	answered
	openWatches
	stageAccess
	stageQueue
	stageAdmission
	stageStore
	stageAnswer
	stageRest
	heap
	memory
	processor
)

// point has a value of each series.
type point [len(measures)]float64

// series are the values of the last hour.
type series struct {
	mu sync.Mutex
	// end is the time of the newest values; zero: there are none. It is guarded by mu, as is values.
	end    time.Time
	values [len(measures)][]float32
	named  named
}

// add takes the newest values. Between them and those before there may be steps without values: the process did not run, so that nothing
// happened. Ticks come early and late, which is no such step; nor is a clock that is set back.
func (s *series) add(at time.Time, p *point, families map[string]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	missed := 0
	if !s.end.IsZero() {
		passed := at.Round(0).Sub(s.end) // by the wall clock: the other one stands still while a machine sleeps
		missed = min(max(int(passed.Round(SeriesStep)/SeriesStep)-1, 0), seriesValues)
	}
	s.end = at.Round(0)
	for n := range s.values {
		s.values[n] = grown(s.values[n], missed, p[n])
	}
	if s.named == nil {
		s.named = named{}
	}
	s.named.add(families, missed, len(s.values[0]))
}

// rounded keeps four digits, which is what a chart can show.
func rounded(f float64) float32 {
	if f == 0 || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(f)))-3)
	return float32(math.Round(f/unit) * unit)
}

// TimeSeries returns the series; none before the first values.
func (r *Recorder) TimeSeries() []*v1alpha1.TimeSeries {
	s := &r.series
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*v1alpha1.TimeSeries
	tell := func(name, unit string, values []float32) {
		t := &v1alpha1.TimeSeries{Unit: unit, Step: metav1.Duration{Duration: SeriesStep}, Values: slices.Clone(values)}
		t.Name = name
		t.End = metav1.NewTime(s.end)
		out = append(out, t)
	}
	for n, m := range measures {
		if len(s.values[n]) > 0 {
			tell(m.name, m.unit, s.values[n])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.named)) {
		before, _, _ := strings.Cut(name, ".")
		tell(name, families[before].unit, s.named[name])
	}
	return out
}

// KeepSeries measures until a context ends.
func (r *Recorder) KeepSeries(ctx context.Context, parts Parts) {
	m := measuring{Recorder: r, parts: parts}
	m.begin(ctx)
	ticker := r.Clock.NewTicker(SeriesStep)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			now := r.Clock.Now()
			p, families := m.measure(ctx, now)
			r.series.add(now, &p, families)
		}
	}
}

// measuring measures what has happened since it measured before.
type measuring struct {
	*Recorder
	parts    Parts
	cursor   Cursor
	last     time.Time
	revision int64
	used     time.Duration
	refused  map[string]int64 // by priority level, since the server started
}

// begin takes note of what is there already.
func (m *measuring) begin(ctx context.Context) {
	m.fresh(&m.cursor, writes, refusals, reads)
	m.last, m.used = m.Clock.Now(), processorTime()
	m.stores(ctx, &point{}, math.Inf(1))
	m.levels(&point{}, map[string]float64{}, 1)
}

// measure returns the values of the series that there always are, and of those of families by their names.
func (m *measuring) measure(ctx context.Context, now time.Time) (p point, families map[string]float64) {
	families = map[string]float64{}
	seconds := max(now.Sub(m.last), time.Millisecond).Seconds()
	m.last = now
	m.requests(&p, seconds)
	m.stores(ctx, &p, seconds)
	m.levels(&p, families, seconds)
	m.kinds(families)
	p[openWatches] = float64(m.watches.count())
	used := processorTime()
	p[processor], m.used = (used-m.used).Seconds()/seconds, used
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	p[heap], p[memory] = float64(samples[0].Value.Uint64()), float64(samples[1].Value.Uint64()-samples[2].Value.Uint64())
	return p, families
}

// ofVerb is where requests are counted.
var ofVerb = map[string]int{"get": reqGet, "list": reqList, "watch": reqWatch, "create": reqCreate, "update": reqUpdate, "patch": reqPatch,
	"delete": reqDelete, "deletecollection": reqDelete}

// ofLayer is which stage of a request a part of the server belongs to.
var ofLayer = map[string]int{
	request.LayerAuthentication.String(): stageAccess, request.LayerAuthorization.String(): stageAccess, request.LayerImpersonation.String(): stageAccess,
	request.LayerQueue.String(): stageQueue, request.LayerMutatingWebhook.String(): stageAdmission, request.LayerValidatingWebhook.String(): stageAdmission,
	request.LayerStorage.String(): stageStore, request.LayerTransform.String(): stageAnswer, request.LayerSerialize.String(): stageAnswer, request.LayerWrite.String(): stageAnswer,
}

// stages adds up where a request spent its time. The rest is what none of these parts had: its body came, it was checked and changed.
func (p *point) stages(rec *v1alpha1.Record) {
	weight, rest := float64(rec.Weight), rec.Duration.Seconds()
	for _, l := range rec.Layers {
		if n, ok := ofLayer[l.Name]; ok {
			p[n] += weight * l.Duration.Seconds()
			rest -= l.Duration.Seconds()
		}
	}
	p[stageRest] += weight * max(rest, 0)
}

// requests counts those that have ended, as Traffic does: a sample of the reads stands for all.
func (m *measuring) requests(p *point, seconds float64) {
	var times Times[float32]
	var timed float64
	for _, rec := range m.fresh(&m.cursor, writes, refusals, reads) {
		if rec.Console {
			continue
		}
		rate := float64(rec.Weight) / seconds
		n, ok := ofVerb[rec.Verb]
		if !ok || rec.Resource == "" {
			n = reqOther
		}
		p[n] += rate
		p[answered] += rate * float64(rec.ResponseBytes)
		switch {
		case rec.Code >= 500:
			p[failed] += rate
		case rec.Code >= 400 && rec.Code != 404:
			p[refused] += rate
		}
		if !Streams(rec) {
			times.Add(rec.Duration.Duration, float32(rec.Weight))
			p.stages(rec)
			timed += float64(rec.Weight)
		}
	}
	for n := stageAccess; n <= stageRest && timed > 0; n++ {
		p[n] /= timed // the mean of a request
	}
	p[p50], p[p99] = times.Quantile(.5).Seconds(), times.Quantile(.99).Seconds()
}

// stores asks the databases. The latency of one that does not answer is how long it took to find that out.
func (m *measuring) stores(ctx context.Context, p *point, seconds float64) {
	began := m.Clock.Now()
	all := m.parts.Datastores(ctx)
	took := m.Clock.Since(began)
	var revision int64
	for _, d := range all {
		if d.Error != "" {
			d.Latency.Duration = took
		}
		p[storeLatency] = max(p[storeLatency], d.Latency.Seconds())
		p[storeBytes] += float64(d.Bytes)
		revision += d.Revision
	}
	if revision > m.revision {
		p[storeWrites] = float64(revision-m.revision) / seconds
		m.revision = revision
	}
}
