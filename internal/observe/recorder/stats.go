package recorder

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// maxStats bounds the webhooks and policies that have statistics. What comes later has none.
const maxStats = 2000

// stats are how webhooks and policies do.
type stats struct {
	mu  sync.Mutex
	all map[statKey]*stat // guarded by mu
}

type statKey struct{ kind, name, phase string }

type stat struct {
	v1alpha1.WebhookStat
	times Times[int64]
	// minute counts the calls of a minute, before those of the minute before it.
	minute, before int64
	of             int64
}

func (s *stats) init() { s.all = map[statKey]*stat{} }

// add counts the webhooks and policies on the way of a request.
func (s *stats) add(rec *v1alpha1.Record) {
	for n := range rec.Steps {
		if step := &rec.Steps[n]; asked(step) {
			s.step(step, rec.Time.Time)
		}
	}
}

// asked says that a step is a webhook, policy or conversion, which have statistics.
func asked(s *v1alpha1.Step) bool {
	return s.Kind != request.StepPlugin && s.Kind != request.StepAuthentication
}

func (s *stats) step(step *v1alpha1.Step, began time.Time) {
	at := began.Add(step.After.Duration)
	k := statKey{step.Kind, step.Name, step.Phase}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.all[k]
	if of == nil {
		if len(s.all) >= maxStats {
			return
		}
		of = &stat{}
		of.Kind, of.Step, of.Phase = step.Kind, step.Name, step.Phase
		of.CreationTimestamp = metav1.NewTime(at)
		s.all[k] = of
	}
	of.Calls++
	of.turn(at)
	of.minute++
	of.times.Add(step.Duration.Duration, 1)
	of.Max.Duration = of.times.Max()
	of.LastCall = metav1.NewTime(at)
	if step.Changed {
		of.Changed++
	}
	switch step.Result {
	case request.StepRefused:
		of.Refused++
	case request.StepTimedOut, request.StepFailed:
		of.Failed++
		if step.Result == request.StepTimedOut {
			of.TimedOut++
		}
		if step.Ignored {
			of.Ignored++
		}
		failed := metav1.NewTime(at)
		of.LastFailure = &failed
	}
}

// forget drops the statistics of what is gone. It asks without the lock, which requests need.
func (s *stats) forget(gone func(k statKey) bool) {
	s.mu.Lock()
	keys := slices.Collect(maps.Keys(s.all))
	s.mu.Unlock()
	for _, k := range keys {
		if gone(k) {
			s.mu.Lock()
			delete(s.all, k)
			s.mu.Unlock()
		}
	}
}

// turn begins another minute.
func (s *stat) turn(at time.Time) {
	now := at.Unix() / 60
	switch {
	case now == s.of+1:
		s.before, s.minute = s.minute, 0
	case now > s.of+1:
		s.before, s.minute = 0, 0
	default:
		return
	}
	s.of = now
}

// Webhooks returns how webhooks and policies do, those that took longest first.
func (r *Recorder) Webhooks() []*v1alpha1.WebhookStat {
	now := r.Clock.Now()
	r.stats.mu.Lock()
	defer r.stats.mu.Unlock()
	out := make([]*v1alpha1.WebhookStat, 0, len(r.stats.all))
	for k, s := range r.stats.all {
		s.turn(now)
		shown := s.WebhookStat
		shown.ObjectMeta.Name = nameOf(k)
		shown.P50.Duration, shown.P99.Duration = s.times.Quantile(.5), s.times.Quantile(.99)
		passed := float64(now.Unix()%60) / 60
		shown.PerMinute = float64(s.minute) + float64(s.before)*(1-passed)
		out = append(out, &shown)
	}
	slices.SortFunc(out, func(a, b *v1alpha1.WebhookStat) int {
		return cmp.Or(cmp.Compare(b.P99.Duration, a.P99.Duration), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// nameOf makes the name of an object for a webhook or policy.
func nameOf(k statKey) string {
	b := []byte(k.kind + "." + k.name + "." + k.phase)
	for n, c := range b {
		if c == '/' {
			b[n] = ':'
		}
	}
	return string(b)
}
