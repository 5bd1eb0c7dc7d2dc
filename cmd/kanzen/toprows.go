package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// groupings are what requests are grouped by.
var groupings = [...]string{"users", "clients", "resources"}

// row is the requests of one group in a window.
type row struct {
	Key    string        `json:"key"`
	Rate   float64       `json:"perSecond"`
	Errors int64         `json:"errors"`
	P50    time.Duration `json:"p50"`
	P99    time.Duration `json:"p99"`
	Bytes  int64         `json:"bytes"`

	refused, failed float64 // a second
}

// seen is what top keeps of a request: no more than it shows, in bounded texts.
type seen struct {
	came, time    time.Time // here, and at the server
	took          time.Duration
	number        int64
	weight, bytes int64
	code          int32
	timed         bool                   // it does not last as long as its client likes
	own           bool                   // top itself has sent it
	keys          [len(groupings)]string // of the groups that it is in
	verb          string
	object        string
	slowest       string
	calls         []call
}

// call is a webhook, policy or conversion on a request's way.
type call struct {
	name, result string
	took         time.Duration
}

// maxCalls bounds the calls of a request that are kept.
const maxCalls = 16

func seenOf(rec *v1alpha1.Record, now time.Time) seen {
	resource := rec.Resource
	if resource == "" {
		resource = rec.Path
	} else if rec.Group != "" {
		resource += "." + rec.Group
	}
	s := seen{came: now, time: rec.Time.Time, took: rec.Duration.Duration, number: rec.Number, weight: rec.Weight, bytes: rec.ResponseBytes, code: rec.Code, timed: !recorder.Streams(rec),
		keys: [...]string{part(servedAs(rec)), part(clientOf(rec.UserAgent, rec.SourceIP)), part(rec.Verb + " " + resource)},
		verb: part(rec.Verb), object: part(recorder.ObjectOf(rec)), slowest: part(recorder.Slowest(rec))}
	for n := range rec.Steps {
		if step := &rec.Steps[n]; step.Kind != "plugin" && len(s.calls) < maxCalls {
			s.calls = append(s.calls, call{part(step.Name), part(step.Result), step.Duration.Duration})
		}
	}
	return s
}

// servedAs is who a request was served as, and who asked.
func servedAs(rec *v1alpha1.Record) string {
	if rec.Impersonated != "" {
		return rec.Impersonated + " (by " + rec.User + ")"
	}
	return cmp.Or(rec.User, "(nobody)")
}

// clientOf is how a client is called: by its program and address.
func clientOf(agent, address string) string {
	return cmp.Or(recorder.Program(agent), "(unnamed)") + " " + address
}

// maxPart bounds a text that is shown, in bytes: more than a line of a screen has.
const maxPart = 1 << 10

func part(s string) string { return strings.Clone(s[:min(len(s), maxPart)]) }

func (s *seen) size() int {
	n := len(s.verb) + len(s.object) + len(s.slowest)
	for _, k := range s.keys {
		n += len(k)
	}
	for _, c := range s.calls {
		n += 48 + len(c.name) + len(c.result)
	}
	return n
}

func (s *seen) failed() bool  { return s.code >= 500 }
func (s *seen) refused() bool { return s.code >= 400 && s.code < 500 && s.code != 404 }

// group is the requests of a group while they are counted.
type group struct {
	row
	times recorder.Times[float64]
}

// count counts as the server does for its statistics, so that both show the same numbers.
func (g *group) count(s *seen, seconds float64) {
	rate := float64(s.weight) / seconds
	g.Rate += rate
	g.Bytes += s.bytes * s.weight
	switch {
	case s.failed():
		g.failed += rate
	case s.refused():
		g.refused += rate
	}
	if s.failed() || s.refused() {
		g.Errors += s.weight
	}
	if s.timed {
		g.times.Add(s.took, float64(s.weight))
	}
}

func (g *group) counted() row {
	g.P50, g.P99 = g.times.Quantile(.5), g.times.Quantile(.99)
	return g.row
}

// inWindow calls f with the requests that are counted.
func (t *top) inWindow(f func(s *seen)) {
	for n := len(t.seen) - 1; n >= 0 && t.now.Sub(t.seen[n].came) <= t.window; n-- {
		if s := &t.seen[n]; t.own || !s.own {
			f(s)
		}
	}
}

// rows groups the requests of the window, those with the highest rate first.
func (t *top) rows(by int) []row {
	groups := map[string]*group{}
	t.inWindow(func(s *seen) {
		g := groups[s.keys[by]]
		if g == nil {
			g = &group{row: row{Key: s.keys[by]}}
			groups[g.Key] = g
		}
		g.count(s, t.window.Seconds())
	})
	out := make([]row, 0, len(groups))
	for _, g := range groups {
		out = append(out, g.counted())
	}
	slices.SortFunc(out, func(a, b row) int { return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Key, b.Key)) })
	return out
}

// all returns the requests of the window as one group.
func (t *top) all() row {
	var g group
	t.inWindow(func(s *seen) { g.count(s, t.window.Seconds()) })
	return g.counted()
}

// short writes a time in few characters.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return fmt.Sprintf("%.2fs", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d)/1e6)
	}
	return fmt.Sprintf("%dµs", d.Microseconds())
}
