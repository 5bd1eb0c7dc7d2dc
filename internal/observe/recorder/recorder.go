// Package recorder is the flight recorder: it remembers what the server did, within a bound of bytes. It keeps every
// write, refusal, error and slow request, and a sample of the reads; the newest history of each object outlives the
// rest. It knows the watches that are served, and how webhooks and policies do.
//
// What it keeps never has tokens, bodies or values of secrets. Values of other objects, and messages of refusals, which may
// quote such, are told only to who may get the object, and written to no file (told.go). Names come from clients, so each
// text has a bound.
//
// It measures nothing itself: the times are those of request.Latency, and what else happens on a request's way is
// reported to its trail (request.AddStep and others). A request that is not kept costs two looks at its context and the
// clock, allocates nothing and takes no lock that requests share.
package recorder

import (
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Config configures a Recorder. Clock and Log are required.
type Config struct {
	// Memory bounds what is kept, in bytes.
	Memory int64
	// Slow is the time from which a request is kept for being slow; 0 is 500 ms. Watches and streams are never slow.
	Slow time.Duration
	// Sample is of how many reads one is kept, beyond the first few of each second; 0 is 100.
	Sample int
	// Disk keeps what is kept beyond the end of the process. Optional.
	Disk  *Disk
	Clock clock.WithTicker
	Log   *slog.Logger
}

// Recorder is the flight recorder of a server. It is safe for concurrent use.
type Recorder struct {
	Config
	number  atomic.Int64
	rings   [classes]ring
	history *history
	watches watches
	stats   stats
	old     deprecated
	ending  endings
	people  people
	series  series
	loaded  chan struct{} // closed when Load has ended
	samples [samplers]sampler
	seen    [classes]atomic.Int64 // requests kept
	// strangers lets through what is written to disk of requests that anybody can send; skipped counts the others.
	strangers sampler
	skipped   atomic.Int64
	began     time.Time
}

// class is a part of the memory, so that a flood of one kind of requests leaves the others alone.
type class int

const (
	writes class = iota
	refusals
	reads
	classes
)

// share is the part of the memory that a class has, in percent. The history has the rest.
var share = [classes]int64{30, 20, 15}

// New makes a recorder.
func New(c Config) *Recorder {
	if c.Slow == 0 {
		c.Slow = 500 * time.Millisecond
	}
	if c.Sample == 0 {
		c.Sample = 100
	}
	r := &Recorder{Config: c, began: c.Clock.Now()}
	// Numbers go on where those of an earlier process ended, however many it has given.
	r.number.Store(c.Clock.Now().UnixMicro())
	r.loaded = make(chan struct{})
	rest := c.Memory
	for n := range r.rings {
		bytes := c.Memory * share[n] / 100
		r.rings[n].init(bytes)
		rest -= bytes
	}
	r.history = newHistory(rest)
	r.watches.init()
	r.stats.init()
	r.old.init()
	r.ending.all = map[endingKey]*EndingCredential{}
	r.people.groups = map[string][]string{}
	return r
}

// Filter follows each request. It stands where refusals of all filters can be seen.
func (r *Recorder) Filter(next chain.Handler) chain.Handler {
	return func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		i, l := request.InfoFrom(ctx), request.LatencyFrom(ctx)
		if i == nil || l == nil {
			next(w, req)
			return
		}
		if chain.LongRunning(i) {
			r.long(next, w, req, i, l)
			return
		}
		l.Record()
		ended := false
		defer func() { r.finish(w, req, i, l, !ended) }()
		next(w, req)
		ended = true
	}
}

// finish keeps a request that has ended, or not. A handler that panicked has failed, whatever it has sent.
func (r *Recorder) finish(w http.ResponseWriter, req *http.Request, i *request.Info, l *request.Latency, panicked bool) {
	now := r.Clock.Now()
	code, took := chain.StatusOf(w), now.Sub(request.ReceivedFrom(req.Context()))
	r.ending.saw(l, req)
	if panicked && code < http.StatusInternalServerError {
		code = http.StatusInternalServerError
	}
	if kept, weight := r.keeps(i, code, took); weight > 0 {
		rec := r.record(w, req, i, l, code, took, kept, weight)
		rec.Slow = took >= r.Slow
		r.keep(rec, l)
	}
}

// long follows a watch or stream. Watches are known while they last, and are kept if they are refused; streams (exec and
// such) are always kept.
func (r *Recorder) long(next chain.Handler, w http.ResponseWriter, req *http.Request, i *request.Info, l *request.Latency) {
	if i.Verb == "watch" {
		entry := &watching{info: i, latency: l, agent: req.UserAgent(), from: req.RemoteAddr, began: r.Clock.Now()}
		l.RecordWatch(&entry.progress)
		r.watches.add(entry)
		defer r.watches.remove(entry)
	} else {
		l.Record()
	}
	next(w, req)
	r.ending.saw(l, req)
	code := chain.StatusOf(w)
	kept := v1alpha1.KeptWrite
	if code >= 400 {
		kept = keptOf(code)
	} else if i.Verb == "watch" || !i.IsResource {
		return
	}
	r.keep(r.record(w, req, i, l, code, r.Clock.Since(request.ReceivedFrom(req.Context())), kept, 1), l)
}

// keeps decides whether a request is kept: why, and for how many it stands. The weight 0 means that it is not.
func (r *Recorder) keeps(i *request.Info, code int, took time.Duration) (kept string, weight int64) {
	switch {
	case i.IsResource && writing(i.Verb):
		return v1alpha1.KeptWrite, 1
	case code >= 400 && code != http.StatusNotFound:
		return keptOf(code), 1
	case took >= r.Slow:
		return v1alpha1.KeptSlow, 1
	}
	n := rand.Uint64()
	if r.samples[n%samplers].take(r.Clock.Now().Unix()) {
		return v1alpha1.KeptSample, 1
	}
	if (n>>8)%uint64(r.Sample) == 0 {
		return v1alpha1.KeptSample, int64(r.Sample)
	}
	return "", 0
}

func keptOf(code int) string {
	if code >= 500 {
		return v1alpha1.KeptError
	}
	return v1alpha1.KeptRefused
}

func writing(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// samplers is the number of samplers; there are several so that requests seldom meet at one.
const samplers = 8

// perSecond is how many reads a sampler keeps of each second.
const perSecond = 2

// sampler lets some reads of each second through. It is written only by requests that are kept, and once a second.
type sampler struct {
	second, left atomic.Int64
	_            [48]byte // a cache line each
}

func (s *sampler) take(now int64) bool {
	if old := s.second.Load(); old != now && s.second.CompareAndSwap(old, now) {
		s.left.Store(perSecond)
	}
	return s.left.Load() > 0 && s.left.Add(-1) >= 0
}

// record makes the record of a request.
func (r *Recorder) record(w http.ResponseWriter, req *http.Request, i *request.Info, l *request.Latency, code int, took time.Duration, kept string, weight int64) *v1alpha1.Record {
	began, t := request.ReceivedFrom(req.Context()), l.Trail()
	rec := &v1alpha1.Record{
		Number: r.number.Add(1), Time: metav1.NewMicroTime(began), Duration: metav1.Duration{Duration: took}, Kept: kept, Weight: weight,
		AuditID: text(request.AuditIDFrom(req.Context()), maxID), UserAgent: shared(req.UserAgent(), maxAgent), SourceIP: shared(address(req.RemoteAddr), maxID),
		Verb: shared(i.Verb, maxID), Group: shared(i.Group, maxName), Version: shared(i.Version, maxID), Resource: shared(i.Resource, maxName),
		Subresource: shared(i.Subresource, maxName), Namespace: shared(i.Namespace, maxName), Name: text(i.Name, maxName),
		DryRun: t.DryRun, Code: int32(code), Reason: reason(t.Reason), MoreSteps: t.MoreSteps, MoreChanges: t.MoreChanges,
		ResponseBytes: chain.SizeOf(w), Console: request.OfConsole(req.Context()) && code != http.StatusUnauthorized, // strangers are no viewers
	}
	if !i.IsResource {
		rec.Path = text(i.Path, maxName)
	}
	if req.ContentLength > 0 {
		rec.RequestBytes = req.ContentLength
	}
	r.people.saw(t.User)
	if t.User != nil {
		rec.User = shared(t.User.GetName(), maxUser)
	}
	if t.As != nil {
		rec.Impersonated = shared(t.As.GetName(), maxUser)
	}
	if rec.Name == "" {
		rec.Name = text(t.Name, maxName)
	}
	if telling(rec) {
		rec.Message = text(strings.ReplaceAll(t.Message, "\n", "; "), maxMessage)
	}
	for _, f := range t.Fields {
		rec.Fields = append(rec.Fields, text(f, maxPath))
	}
	rec.Layers = layersOf(l, began)
	rec.Steps = slices.Grow(rec.Steps, len(t.Steps))
	for _, s := range t.Steps {
		rec.Steps = append(rec.Steps, v1alpha1.Step{Kind: s.Kind, Name: shared(s.Name, 2*maxName), Phase: s.Phase, After: metav1.Duration{Duration: s.Began.Sub(began)},
			Duration: metav1.Duration{Duration: s.Took}, Result: s.Result, Reason: shared(s.Reason, maxID), Ignored: s.Ignored, Changed: s.Changed})
	}
	return rec
}

// layersOf returns where a request that began at a time has spent time.
func layersOf(l *request.Latency, began time.Time) []v1alpha1.Layer {
	n := 0
	l.Each(func(request.Layer, time.Duration) { n++ })
	if n == 0 {
		return nil
	}
	out, afters := make([]v1alpha1.Layer, 0, n), make([]metav1.Duration, 0, n)
	l.Each(func(layer request.Layer, d time.Duration) {
		kept := v1alpha1.Layer{Name: layer.String(), Duration: metav1.Duration{Duration: d}}
		if first := l.First(layer); !first.IsZero() {
			afters = append(afters, metav1.Duration{Duration: max(0, first.Sub(began))})
			kept.After = &afters[len(afters)-1]
		}
		out = append(out, kept)
	})
	return out
}

// reason returns that of a refusal, as NotFound. A webhook may give a text of its own, which is left out: it may quote what
// it was sent.
func reason(s string) string {
	if strings.ContainsFunc(s, func(c rune) bool { return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') }) {
		return ""
	}
	return shared(s, maxID)
}

// telling says that the message of a refusal is kept: it tells more than the code, and quotes no secret.
func telling(rec *v1alpha1.Record) bool {
	return rec.Code >= 400 && rec.Resource != "" && !stranger(rec) && !(rec.Group == "" && rec.Resource == "secrets") && rec.Group != "authentication.k8s.io"
}

// maxKeptChanges bounds the changes in the record of a request; the history of objects has all of them.
const maxKeptChanges = 32

// keep puts a record where it belongs.
func (r *Recorder) keep(rec *v1alpha1.Record, l *request.Latency) {
	changes := r.changes(l.Trail().Changes)
	rec.Changes = changes[:min(len(changes), maxKeptChanges)]
	rec.MoreChanges += len(changes) - len(rec.Changes)
	r.stats.add(rec)
	r.put(rec)
	r.remember(rec, changes)
	if stranger(rec) && r.Disk != nil && !r.strangers.take(r.Clock.Now().Unix()) {
		r.skipped.Add(1)
		return
	}
	r.Disk.write(rec)
}

// stranger says that a request was refused before anybody knew who sent it, or because there were too many. A flood of
// them must not push what others did out of the files.
func stranger(rec *v1alpha1.Record) bool {
	return rec.Code == http.StatusUnauthorized || rec.Code == http.StatusTooManyRequests || rec.Code == http.StatusForbidden && rec.User == user.Anonymous
}

// put puts a record into its ring.
func (r *Recorder) put(rec *v1alpha1.Record) {
	c := classOf(rec)
	r.seen[c].Add(1)
	r.rings[c].push(rec)
}

// Take takes up a record that another recorder has kept, after all that are here.
func (r *Recorder) Take(rec *v1alpha1.Record) {
	r.put(rec)
	r.remember(rec, rec.Changes)
}

func classOf(rec *v1alpha1.Record) class {
	switch {
	case rec.Code >= 400:
		return refusals
	case rec.Kept == v1alpha1.KeptWrite:
		return writes
	}
	return reads
}

// address returns the address of a client without its port.
func address(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// Describe is part of prometheus.Collector.
func (r *Recorder) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(r, ch) }

// Collect is part of prometheus.Collector.
func (r *Recorder) Collect(ch chan<- prometheus.Metric) {
	metric := func(name, help string, t prometheus.ValueType, value int64, labels ...string) {
		var keys, values []string
		for n := 0; n < len(labels); n += 2 {
			keys, values = append(keys, labels[n]), append(values, labels[n+1])
		}
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, keys, nil), t, float64(value), values...)
	}
	names := [classes]string{"write", "refusal", "read"}
	bytes := r.history.size()
	for c := range r.rings {
		metric("kanzen_flight_recorder_kept_total", "Requests that the flight recorder has kept.", prometheus.CounterValue, r.seen[c].Load(), "class", names[c])
		bytes += r.rings[c].size()
	}
	metric("kanzen_flight_recorder_bytes", "Memory of what the flight recorder keeps.", prometheus.GaugeValue, bytes)
	metric("kanzen_flight_recorder_objects", "Objects whose history the flight recorder has.", prometheus.GaugeValue, r.history.count())
	metric("kanzen_flight_recorder_disk_dropped_total", "Requests that were not written to --flight-recorder-dir, because the disk is too slow or full.",
		prometheus.CounterValue, r.Disk.lost())
	metric("kanzen_flight_recorder_disk_skipped_total", "Refusals of unknown users that were not written to --flight-recorder-dir, because there were too many.",
		prometheus.CounterValue, r.skipped.Load())
}
