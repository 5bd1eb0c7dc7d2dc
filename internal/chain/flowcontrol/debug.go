package flowcontrol

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DebugPath is the prefix of the debugging pages.
const DebugPath = "/debug/api_priority_and_fairness/"

// ServeHTTP writes the current levels, queues and requests as tables.
func (c *Controller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := strings.TrimPrefix(r.URL.Path, DebugPath)
	show := map[string]func(row func(...string), details bool){
		"dump_priority_levels": c.showLevels, "dump_queues": c.showQueues, "dump_requests": c.showRequests,
	}[page]
	if show == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	table := tabwriter.NewWriter(w, 8, 0, 1, ' ', 0)
	show(func(cells ...string) { fmt.Fprintln(table, strings.Join(cells, ",\t")) }, r.URL.Query().Get("includeRequestDetails") != "")
	_ = table.Flush() // the client may have closed the connection
}

// each calls f for each level, sorted by name, with the level's lock held.
func (c *Controller) each(f func(name string, l *level)) {
	c.mu.Lock()
	levels := maps.Clone(c.levels)
	c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(levels)) {
		l := levels[name]
		l.mu.Lock()
		f(name, l)
		l.mu.Unlock()
	}
}

func (c *Controller) isQuiescing(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.levels[name]
	return l != nil && l.quiescing
}

func (c *Controller) showLevels(row func(...string), _ bool) {
	row("PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests",
		"DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests")
	var lines [][]string
	c.each(func(name string, l *level) {
		s, active := l.set, 0
		for _, q := range s.made() {
			if len(q.waiting) > 0 {
				active++
			}
		}
		lines = append(lines, []string{name, strconv.Itoa(active), strconv.FormatBool(s.idle()), "", strconv.Itoa(s.waiting), strconv.Itoa(s.executing),
			strconv.Itoa(s.dispatched), strconv.Itoa(s.rejected), "0", strconv.Itoa(s.timedOut)})
	})
	for _, line := range lines {
		line[3] = strconv.FormatBool(c.isQuiescing(line[0]))
		row(line...)
	}
}

func (c *Controller) showQueues(row func(...string), _ bool) {
	row("PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR", "InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum")
	c.each(func(name string, l *level) {
		for n, q := range l.set.all {
			q = cmp.Or(q, &queue{})
			row(name, strconv.Itoa(n), strconv.Itoa(len(q.waiting)), strconv.Itoa(q.executing), strconv.Itoa(q.seats), q.nextR.String(),
				strconv.Itoa(q.initialSum), strconv.Itoa(q.seatsSum), q.workSum.String())
		}
	})
}

func (s seatSeconds) String() string { return fmt.Sprintf("%.8fss", float64(s)) }

func (c *Controller) showRequests(row func(...string), details bool) {
	head := []string{"PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher", "ArriveTime",
		"InitialSeats", "FinalSeats", "AdditionalLatency", "StartTime"}
	if details {
		head = append(head, "UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")
	}
	row(head...)
	c.each(func(name string, l *level) {
		show := func(queue, place int, t *ticket) {
			line := []string{name, t.flow.Name, strconv.Itoa(queue), strconv.Itoa(place), t.which, t.arrived.UTC().Format(time.RFC3339Nano),
				strconv.Itoa(t.Initial), strconv.Itoa(t.Final), t.Linger.String(), t.began.UTC().Format(time.RFC3339Nano)}
			if details {
				i := t.details.info
				line = append(line, t.details.user, i.Verb, i.Path, i.Namespace, i.Name,
					schema.GroupVersion{Group: i.Group, Version: i.Version}.String(), i.Resource, i.Subresource)
			}
			row(line...)
		}
		for n, q := range l.set.made() {
			for place, t := range q.waiting {
				show(n, place, t)
			}
		}
		for t := range l.set.tickets {
			at := -1
			if t.queue != nil {
				at = slices.Index(l.set.all, t.queue)
			}
			show(at, -1, t)
		}
	})
}

// LevelState is what a priority level does now, and what it did since the server started.
type LevelState struct {
	Name                              string
	Exempt                            bool
	Seats, Nominal, SeatsInUse        int
	Executing, Waiting                int
	Queues, ActiveQueues, QueueLength int
	Dispatched, Rejected, TimedOut    int
	// Users are those whose requests are served or wait, if somebody waits; those who want most come first.
	Users []UserSeats
}

// UserSeats is what a user has of a priority level.
type UserSeats struct {
	User           string
	Seats, Waiting int
}

// users returns who has seats and who waits, those who want most first. The level's lock is held.
func (s *queueSet) users() []UserSeats {
	if s.waiting == 0 {
		return nil
	}
	all := map[string]*UserSeats{}
	of := func(t *ticket) *UserSeats {
		u := all[t.details.user]
		if u == nil {
			u = &UserSeats{User: t.details.user}
			all[t.details.user] = u
		}
		return u
	}
	for t := range s.tickets {
		of(t).Seats += t.Initial
	}
	for _, q := range s.made() {
		for _, t := range q.waiting {
			of(t).Waiting++
		}
	}
	out := make([]UserSeats, 0, len(all))
	for _, u := range all {
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b UserSeats) int {
		return cmp.Or(cmp.Compare(b.Seats+b.Waiting, a.Seats+a.Waiting), cmp.Compare(a.User, b.User))
	})
	return out
}

// Levels returns the state of all priority levels, sorted by name.
func (c *Controller) Levels() []LevelState {
	var out []LevelState
	c.each(func(name string, l *level) {
		s := l.set
		out = append(out, LevelState{Name: name, Exempt: s.exempt, Seats: s.capacity, SeatsInUse: s.seatsInUse, Executing: s.executing, Waiting: s.waiting,
			Queues: s.queues, ActiveQueues: s.active, QueueLength: s.length, Dispatched: s.dispatched, Rejected: s.rejected, TimedOut: s.timedOut, Users: s.users()})
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range out {
		if l := c.levels[out[n].Name]; l != nil {
			out[n].Nominal = l.share.nominal
		}
	}
	return out
}
