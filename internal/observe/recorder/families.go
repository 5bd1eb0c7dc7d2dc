package recorder

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// This file keeps the hour of what there are several of: priority levels, and the resources that are stored. Which these are is known
// only while the server runs, and users make them, so the series of each family are bounded.

// Families of series, by what the name of a series has before its first dot. Behind it is which one it is of.
const (
	levelSeats   = "levelSeats"
	levelWaiting = "levelWaiting"
	levelRefused = "levelRefused"
	kindBytes    = "kindBytes"
)

// family says what the series of one are.
type family struct {
	unit string
	of   string // what is selected by
	most int    // series
}

var families = map[string]family{
	levelSeats: {v1alpha1.Count, ofLevels, 32}, levelWaiting: {v1alpha1.Count, ofLevels, 32}, levelRefused: {v1alpha1.PerSecond, ofLevels, 32},
	kindBytes: {v1alpha1.Bytes, ofKinds, 24},
}

// What the field "of" of a series can be: who reads a page of one subject need not read all series.
const (
	ofServer = "server"
	ofLevels = "levels"
	ofKinds  = "kinds"
)

// largestKinds is of how many resources a series begins: of those with most bytes.
const largestKinds = 8

// seriesOf says what a series is of.
func seriesOf(name string) string {
	before, _, _ := strings.Cut(name, ".")
	return cmp.Or(families[before].of, ofServer)
}

// named are the series of families by their names. series guards them, and all have as many values as its others.
type named map[string][]float32

// add takes the newest values, of which each series has length ones then. A series begins with the first value that is not 0, and is
// forgotten an hour after the last one.
func (n named) add(values map[string]float64, missed, length int) {
	for name, v := range n {
		v = grown(v, missed, values[name])
		if n[name] = v; values[name] == 0 && !slices.ContainsFunc(v, func(f float32) bool { return f != 0 }) {
			delete(n, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if n[name] != nil || rounded(values[name]) == 0 || n.full(name) {
			continue
		}
		v := make([]float32, length, seriesValues)
		v[length-1] = rounded(values[name])
		n[name] = v
	}
}

// full says that there are as many series of the family of one as there may be.
func (n named) full(name string) bool {
	before, _, _ := strings.Cut(name, ".")
	count := 0
	for other := range n {
		if strings.HasPrefix(other, before+".") {
			count++
		}
	}
	return count >= families[before].most
}

// grown appends a value, and zeros for the steps that were missed, and drops what is older than an hour.
func grown(v []float32, missed int, value float64) []float32 {
	v = append(append(v, make([]float32, missed)...), rounded(value))
	if over := len(v) - seriesValues; over > 0 {
		v = append(v[:0], v[over:]...)
	}
	return v
}

// levels measures each priority level.
func (m *measuring) levels(p *point, values map[string]float64, seconds float64) {
	refused := map[string]int64{}
	for _, l := range m.parts.PriorityLevels() {
		p[seatsInUse] += float64(l.SeatsInUse)
		p[seatsWaiting] += float64(l.Waiting)
		values[levelSeats+"."+l.Name] = float64(l.SeatsInUse)
		values[levelWaiting+"."+l.Name] = float64(l.Waiting)
		refused[l.Name] = l.Rejected + l.TimedOut
		if before, ok := m.refused[l.Name]; ok {
			values[levelRefused+"."+l.Name] = float64(max(refused[l.Name]-before, 0)) / seconds
		}
	}
	m.refused = refused
}

// kinds measures the resources with most bytes, and those that had most before.
func (m *measuring) kinds(values map[string]float64) {
	if m.parts.Views == nil {
		return
	}
	for n, v := range m.parts.Views() { // the largest come first
		if name := kindBytes + "." + v.Name; n < largestKinds || m.series.has(name) {
			values[name] = float64(v.Bytes)
		}
	}
}

func (s *series) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.named[name] != nil
}
