package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// This file has what top shows of planes: the control planes below the server.

// planesSeen are those that a look has found.
type planesSeen struct {
	all           []v1alpha1.PlaneStat
	told          bool // the server has planes, and the user may read what they do
	awake, asleep int  // of all, as the metrics count them
	rate, refused map[string]float64

	servers     []v1alpha1.PlaneServer // that share them
	serverRates map[string]serverRates
}

// allPlanes is how many planes are asked for whatever their state. Of more, those that are awake are: the others have no use to show.
const allPlanes = 1000

// lookAtPlanes asks what the planes do. From what was seen before it follows how much they did since then.
func (t *top) lookAtPlanes(ctx context.Context, s, before *state) {
	path := recorderPath + "planestats"
	if s.planes.awake+s.planes.asleep > allPlanes {
		path += "?fieldSelector=state%3DAwake"
	}
	all, _, err := items[v1alpha1.PlaneStat](ctx, t.asker, path)
	s.planes.all, s.planes.told = all, err == nil
	s.planes.rate, s.planes.refused = map[string]float64{}, map[string]float64{}
	seconds := s.slow.Sub(before.slow).Seconds()
	if before.slow.IsZero() {
		seconds = 0
	}
	if s.planes.told {
		t.lookAtServers(ctx, s, before, seconds)
	}
	if seconds <= 0 {
		return
	}
	was := map[string]*v1alpha1.PlaneStat{}
	for n := range before.planes.all {
		was[before.planes.all[n].Name] = &before.planes.all[n]
	}
	for n := range all {
		p := &all[n]
		if b := was[p.Name]; b != nil && b.Server == p.Server { // each server has counts of its own; a new one counts from 0, and so does a new plane of the same name
			s.planes.rate[p.Name] = max(0, float64(p.Requests-b.Requests)/seconds)
			s.planes.refused[p.Name] = max(0, float64(p.Refused-b.Refused)/seconds)
		}
	}
}

// tabCount is how many tabs there are: a server without planes has none for them, unless it was asked for.
func (t *top) tabCount() int {
	if t.onPlanes || t.server.planes.told {
		return len(tabs)
	}
	return planesTab
}

func (t *top) planesTable() *table {
	out := &table{nothing: "the server has no planes (--planes), or you may not read planestats.flightrecorder.kanzen.io", columns: []column{{title: "REQ/S", width: 8}, {title: "REFUSED/S", width: 10, rank: 1}, {title: "WATCHES", width: 8, rank: 2},
		{title: "IN USE", width: 7, rank: 5}, {title: "WAITING", width: 8, rank: 3}, {title: "OBJECTS", width: 9, rank: 4}, {title: "KB", width: 10, rank: 3}, {title: "STATE", width: 6, rank: 2, left: true}, {title: "PLANES", left: true}}}
	s := &t.server.planes
	if s.told {
		out.nothing = "there are no planes"
	}
	fleet := s.isFleet()
	if fleet {
		out.columns = slices.Insert(out.columns, len(out.columns)-1, column{title: "SERVER", width: 16, most: 24, rank: 1, left: true})
	}
	for n := range s.all {
		p := &s.all[n]
		out.entries = append(out.entries, entry{part(p.Name), []cell{number(s.rate[p.Name]), bad(number(s.refused[p.Name]), yellow), count(p.Watches), count(p.SeatsInUse), bad(count(p.Waiting), yellow), count(p.Objects),
			number(float64(p.Bytes) / 1024), {text: part(p.State)}, {text: part(p.Name)}}})
		if fleet {
			e := &out.entries[n]
			e.cells = slices.Insert(e.cells, len(e.cells)-1, cell{text: part(p.Server)})
		}
	}
	return out
}

// planeTable has what is known of one plane.
func (t *top) planeTable(name string) *table {
	out := &table{nothing: "this plane is gone, or asleep", unsorted: true, columns: []column{{title: "NUMBER", width: 12}, {title: "OF", left: true}}}
	s := &t.server.planes
	for n := range s.all {
		p := &s.all[n]
		if part(p.Name) != name {
			continue
		}
		for _, l := range []struct {
			number cell
			of     string
		}{
			{number(s.rate[p.Name]), "requests a second"}, {count(p.Requests), "requests since its server started"}, {bad(number(s.refused[p.Name]), yellow), "refused a second"},
			{bad(count(p.RefusedBy.RequestsPerSecond), yellow), "refused by the limit of requests a second"}, {bad(count(p.RefusedBy.Watches), yellow), "refused by the limit of watches"},
			{bad(count(p.RefusedBy.Storage), yellow), "writes refused by the limits of objects and bytes"}, {bad(count(p.RefusedBy.Seats), yellow), "refused because too many waited for a seat"},
			{bad(count(p.RefusedBy.Start), red), "refused because the plane could not be woken"}, {count(p.Watches), "watches and other long-running requests"},
			{cell{text: fmt.Sprintf("%d of %d", p.SeatsInUse, p.Seats)}, "seats in use"}, {bad(count(p.Waiting), yellow), "requests that wait for a seat"}, {count(p.Objects), "objects of its own"},
			{number(float64(p.Bytes) / 1024), "KB of these objects"}, {count(p.Wakes), "times it has woken, now " + strings.ToLower(part(p.State)+on(p.Server))}, {bad(count(p.Moves), yellow), "times it went to another server in the last hour"},
		} {
			out.entries = append(out.entries, entry{l.of, []cell{l.number, {text: l.of}}})
		}
	}
	return out
}

// on says on which server something is; "": it is not said.
func on(server string) string {
	if server == "" {
		return ""
	}
	return " on " + part(server)
}

// report is what programs are told of planes.
func (s *planesSeen) report() []map[string]any {
	out := make([]map[string]any, 0, len(s.all))
	for n := range s.all {
		p := &s.all[n]
		out = append(out, map[string]any{"name": p.Name, "state": p.State, "server": p.Server, "moves": p.Moves, "perSecond": s.rate[p.Name], "refusedPerSecond": s.refused[p.Name], "requests": p.Requests, "refusedBy": p.RefusedBy,
			"watches": p.Watches, "seats": p.Seats, "seatsInUse": p.SeatsInUse, "waiting": p.Waiting, "objects": p.Objects, "bytes": p.Bytes, "wakes": p.Wakes})
	}
	return out
}

// metricsOf reads values of metrics, by name and labels, from a page of them; false: it ended early.
func metricsOf(page io.Reader, into map[string]*float64) bool {
	lines := bufio.NewScanner(page)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if to := into[name]; to != nil {
			if n, err := strconv.ParseFloat(value, 64); err == nil && n >= 0 && n < 1<<62 {
				*to = n
			}
		}
	}
	return lines.Err() == nil
}
