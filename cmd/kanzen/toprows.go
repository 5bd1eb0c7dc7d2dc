package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/internal/recorder"
	"github.com/kanzen-io/kanzen/internal/recorder/v1alpha1"
)

// groupings and sortings are what the keys g and s choose from.
var (
	groupings = [...]string{"users", "clients", "resources"}
	sortings  = [...]string{"rate", "p99", "errors"}
)

// row is the requests of one group in a window.
type row struct {
	Key    string        `json:"key"`
	Rate   float64       `json:"perSecond"`
	Errors int64         `json:"errors"`
	P50    time.Duration `json:"p50"`
	P99    time.Duration `json:"p99"`
	Bytes  int64         `json:"bytes"`
}

// seen is what top keeps of a request: no more than it shows, in bounded texts.
type seen struct {
	came, time    time.Time // here, and at the server
	took          time.Duration
	weight, bytes int64
	code          int32
	keys          [len(groupings)]string // of the groups that it is in
	verb          string
	object        string
	slowest       string
}

func seenOf(rec *v1alpha1.Record, now time.Time) seen {
	resource := rec.Resource
	if resource == "" {
		resource = rec.Path
	} else if rec.Group != "" {
		resource += "." + rec.Group
	}
	return seen{came: now, time: rec.Time.Time, took: rec.Duration.Duration, weight: rec.Weight, bytes: rec.ResponseBytes, code: rec.Code,
		keys: [...]string{part(cmp.Or(rec.User, "(nobody)")), part(cmp.Or(recorder.Program(rec.UserAgent), "(unnamed)") + " " + rec.SourceIP), part(rec.Verb + " " + resource)},
		verb: part(rec.Verb), object: part(recorder.ObjectOf(rec)), slowest: part(recorder.Slowest(rec))}
}

// maxPart bounds a text that is shown, in bytes: more than a line of a screen has.
const maxPart = 1 << 10

func part(s string) string { return strings.Clone(s[:min(len(s), maxPart)]) }

func (s *seen) size() int {
	n := len(s.verb) + len(s.object) + len(s.slowest)
	for _, k := range s.keys {
		n += len(k)
	}
	return n
}

// rows groups the requests of the window.
func (t *top) rows() []row {
	type group struct {
		row
		times recorder.Times[float64]
	}
	groups := map[string]*group{}
	for n := range t.seen {
		rec := &t.seen[n]
		k := rec.keys[t.groupBy]
		g := groups[k]
		if g == nil {
			g = &group{row: row{Key: k}}
			groups[k] = g
		}
		g.Rate += float64(rec.weight) / t.window.Seconds()
		g.Bytes += rec.bytes * rec.weight
		if rec.code >= 400 {
			g.Errors += rec.weight
		}
		g.times.Add(rec.took, float64(rec.weight))
	}
	out := make([]row, 0, len(groups))
	for _, g := range groups {
		g.P50, g.P99 = g.times.Quantile(.5), g.times.Quantile(.99)
		out = append(out, g.row)
	}
	slices.SortFunc(out, func(a, b row) int {
		by := cmp.Compare(b.Rate, a.Rate)
		switch sortings[t.sortBy] {
		case "p99":
			by = cmp.Compare(b.P99, a.P99)
		case "errors":
			by = cmp.Compare(b.Errors, a.Errors)
		}
		return cmp.Or(by, cmp.Compare(a.Key, b.Key))
	})
	return out
}

// screen makes the lines of the screen.
func (t *top) screen(width, height int) []string {
	var out []string
	line := func(format string, args ...any) {
		s := []rune(told(format, args...))
		out = append(out, string(s[:min(len(s), width)]))
	}
	var rate float64
	for n := range t.seen {
		rate += float64(t.seen[n].weight) / t.window.Seconds()
	}
	line("%.1f requests a second, %d watches; by %s, sorted by %s", rate, len(t.watches), groupings[t.groupBy], sortings[t.sortBy])
	if t.trouble != nil {
		line("%v", t.trouble)
	}
	line("")
	if t.open != "" {
		t.opened(line, height-4)
		return out[:min(len(out), max(height-1, 1))]
	}
	rows := t.rows()
	t.chosen = max(0, min(t.chosen, len(rows)-1))
	room := max(5, (height-6)/2)
	line("  %9s %9s %9s %7s %9s  %s", "REQ/S", "P50", "P99", "ERRORS", "KB/S", strings.ToUpper(groupings[t.groupBy]))
	for n, r := range rows[:min(len(rows), room)] {
		mark := " "
		if n == t.chosen {
			mark = ">"
		}
		line("%s %9.1f %9s %9s %7d %9.1f  %s", mark, r.Rate, short(r.P50), short(r.P99), r.Errors, float64(r.Bytes)/1024/t.window.Seconds(), r.Key)
	}
	rest := max(3, (height-len(out)-5)/2)
	if len(t.webhooks) > 0 {
		line("")
		line("  %9s %9s %9s %7s %7s  SLOWEST WEBHOOKS AND POLICIES", "PER MIN", "P50", "P99", "REFUSED", "FAILED")
		for n := range t.webhooks[:min(len(t.webhooks), rest)] {
			h := &t.webhooks[n]
			line("  %9.1f %9s %9s %7d %7d  %s %s", h.PerMinute, short(h.P50.Duration), short(h.P99.Duration), h.Refused, h.Failed, h.Kind, h.Step)
		}
	}
	if len(t.watches) > 0 {
		busy := slices.Clone(t.watches)
		slices.SortFunc(busy, func(a, b v1alpha1.Watch) int {
			return cmp.Or(cmp.Compare(b.Lag.Duration, a.Lag.Duration), cmp.Compare(b.Events, a.Events))
		})
		line("")
		line("  %9s %9s %9s  WATCHES", "EVENTS", "KB", "LAG")
		for n := range busy[:min(len(busy), rest)] {
			w := &busy[n]
			line("  %9d %9.1f %9s  %s %s by %s", w.Events, float64(w.Bytes)/1024, short(w.Lag.Duration), w.Resource, w.Namespace, w.User)
		}
	}
	return out[:min(len(out), max(height-1, 1))]
}

// opened shows the last requests of a group.
func (t *top) opened(line func(string, ...any), room int) {
	line("%s: the newest requests (enter goes back)", t.open)
	line("  %-12s %9s %4s  %-10s %s", "TIME", "TOOK", "CODE", "VERB", "OBJECT")
	for n := len(t.seen) - 1; n >= 0 && room > 0; n-- {
		rec := &t.seen[n]
		if rec.keys[t.groupBy] != t.open {
			continue
		}
		line("  %-12s %9s %4d  %-10s %s  %s", rec.time.Local().Format("15:04:05.000"), short(rec.took), rec.code, rec.verb, rec.object, rec.slowest)
		room--
	}
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
