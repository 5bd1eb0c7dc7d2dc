package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// This file has what top shows of servers that share planes, above these.

// serverRates are what a server did in a second.
type serverRates struct{ requests, refused, passed, failed float64 }

// lookAtServers asks which servers share the planes. From what was seen before it follows how much they did since then.
func (t *top) lookAtServers(ctx context.Context, s, before *state, seconds float64) {
	all, _, err := items[v1alpha1.PlaneServer](ctx, t.asker, recorderPath+"planeservers")
	if err != nil {
		all = nil // it is of a version that has none, or the user may not read them
	}
	s.planes.servers, s.planes.serverRates = all, map[string]serverRates{}
	if len(all) > 1 { // the metrics have counted those of one server
		sum := s.planes.awake + s.planes.asleep
		s.planes.awake = 0
		for n := range all {
			s.planes.awake += int(all[n].Awake)
		}
		s.planes.asleep = max(0, sum-s.planes.awake)
	}
	if seconds <= 0 {
		return
	}
	was := map[string]*v1alpha1.PlaneServer{}
	for n := range before.planes.servers {
		was[before.planes.servers[n].Name] = &before.planes.servers[n]
	}
	for n := range all {
		now := &all[n]
		b := was[now.Name]
		if b == nil || b.Started == nil || now.Started == nil || !b.Started.Equal(now.Started) {
			continue // it did not tell, or counts anew
		}
		grown := func(now, before int64) float64 { return max(0, float64(now-before)/seconds) }
		s.planes.serverRates[now.Name] = serverRates{requests: grown(now.Requests, b.Requests), refused: grown(now.Refused, b.Refused), passed: grown(now.Passed, b.Passed), failed: grown(now.PassedFailed, b.PassedFailed)}
	}
}

// isFleet reports whether several servers share the planes.
func (s *planesSeen) isFleet() bool { return len(s.servers) > 1 }

// serversTable has a line for each server, those with which something is wrong first.
func (t *top) serversTable() *table {
	out := &table{unsorted: true, columns: []column{{title: "PLANES", width: 8}, {title: "REQ/S", width: 8}, {title: "REFUSED/S", width: 10, rank: 3}, {title: "PASSED/S", width: 8, rank: 1}, {title: "FAILED/S", width: 8, rank: 3},
		{title: "WATCHES", width: 8, rank: 4}, {title: "MEMORY", width: 9, rank: 1}, {title: "UP", width: 6, rank: 2}, {title: "SERVERS", left: true}}}
	s := &t.server.planes
	for n := range s.servers {
		is := &s.servers[n]
		rates := s.serverRates[is.Name]
		cells := []cell{count(is.Awake), number(rates.requests), bad(number(rates.refused), yellow), number(rates.passed), bad(number(rates.failed), red), count(is.Watches), {text: size(is.Memory)}, {text: upFor(is, t.now)}, t.serverCell(is)}
		if is.Started == nil { // it has told nothing of itself
			for _, of := range []int{1, 2, 3, 4, 5, 6, 7} {
				cells[of] = cell{text: "-"}
			}
		}
		out.entries = append(out.entries, entry{is.Name, cells})
	}
	slices.SortStableFunc(out.entries, func(a, b entry) int {
		return cmp.Compare(trouble(&b), trouble(&a))
	})
	return out
}

// trouble says how much is wrong with a server, by the colour of its name.
func trouble(e *entry) int {
	switch e.cells[len(e.cells)-1].style {
	case red:
		return 2
	case yellow:
		return 1
	}
	return 0
}

// serverCell is the name of a server, and what is wrong with it.
func (t *top) serverCell(is *v1alpha1.PlaneServer) cell {
	c := cell{text: part(is.Name)}
	if is.Host != "" {
		c.text += " (" + part(is.Host) + ")"
	}
	switch {
	case is.State == v1alpha1.ServerAway && is.Since == nil:
		c.text, c.style = fmt.Sprintf("%s away, %d planes name it", c.text, is.Named), red
	case is.State == v1alpha1.ServerAway:
		c.text, c.style = c.text+" away since "+is.Since.Local().Format("15:04:05"), red
	case is.State == v1alpha1.ServerUnreachable:
		c.text, c.style = c.text+" does not answer", red
		if is.Since != nil {
			c.text += " since " + is.Since.Local().Format("15:04:05")
		}
	case is.State == v1alpha1.ServerLeaving:
		c.text, c.style = c.text+" is being stopped", yellow
	case is.Error != "":
		c.text, c.style = c.text+" "+part(is.Error), yellow
	}
	return c
}

// upFor is how long a server runs.
func upFor(is *v1alpha1.PlaneServer, now time.Time) string {
	if is.Started == nil {
		return ""
	}
	return duration.HumanDuration(now.Sub(is.Started.Time))
}

// above draws the servers, over their planes, in at most half of the room.
func (t *top) above(width, room int) []line {
	if len(t.places) > 0 || t.tab != planesTab || !t.server.planes.isFleet() || room < 6 {
		return nil
	}
	table := t.serversTable()
	most := max(2, room/2)
	out := table.lines(width, min(most, len(table.entries)+1), -1, -1)
	if more := len(table.entries) - most + 1; more > 0 {
		out[len(out)-1] = line{styled(plainly, unmarked+"… and %d more", more+1)}
	}
	return append(out, line{})
}

// serversReport is what programs are told of servers.
func (s *planesSeen) serversReport() []map[string]any {
	out := make([]map[string]any, 0, len(s.servers))
	for n := range s.servers {
		is := &s.servers[n]
		rates := s.serverRates[is.Name]
		one := map[string]any{"name": is.Name, "state": is.State, "host": is.Host, "version": is.Version, "awake": is.Awake, "named": is.Named, "perSecond": rates.requests, "refusedPerSecond": rates.refused,
			"passedPerSecond": rates.passed, "failedPerSecond": rates.failed, "requests": is.Requests, "passed": is.Passed, "passedFailed": is.PassedFailed, "watches": is.Watches, "memoryBytes": is.Memory,
			"moved": is.Moved, "takenOver": is.TakenOver}
		if is.Started != nil {
			one["started"] = is.Started
		}
		if is.Since != nil {
			one["since"] = is.Since
		}
		if is.Error != "" {
			one["error"] = is.Error
		}
		out = append(out, one)
	}
	return out
}
