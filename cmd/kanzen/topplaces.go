package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// This file says what the places of top show: its tabs, and what is opened from them.

// tabs are what is shown; the first ones are the groupings of requests.
var tabs = [...]string{"users", "clients", "resources", "webhooks", "watches", "planes"}

const (
	webhooksTab = len(groupings)
	watchesTab  = len(groupings) + 1
	planesTab   = len(groupings) + 2
)

// place is what was opened by enter.
type place struct {
	tab    int    // from where it was opened
	key    string // of the entry that was opened
	chosen cursor
	// request is the name of a request, if the place shows one; record is what the server says of it.
	request string
	record  *v1alpha1.Request
	err     error
}

// cursor is the chosen entry of a table. It follows its key, and stays where it is if the key is gone.
type cursor struct {
	at  int
	key string
}

// settle finds the entry among others, and returns where it is; -1: there is none.
func (c *cursor) settle(entries []entry) int {
	if n := slices.IndexFunc(entries, func(e entry) bool { return e.key == c.key }); n >= 0 {
		c.at = n
	}
	c.at = max(0, min(c.at, len(entries)-1))
	if len(entries) == 0 {
		return -1
	}
	return c.at
}

// move chooses an entry so many lines below.
func (c *cursor) move(entries []entry, by int) {
	if c.settle(entries) >= 0 {
		c.at = max(0, min(c.at+by, len(entries)-1))
		c.key = entries[c.at].key
	}
}

// scrolled returns the lines from the cursor on, as far as there is room.
func (c *cursor) scrolled(lines []line, room int) []line {
	c.at = max(0, min(c.at, len(lines)-room))
	lines = lines[c.at:]
	if more := len(lines) - room; more > 0 && room > 1 {
		lines = append(lines[:room-1:room-1], line{styled(dim, "  … %s more (↓)", several(more+1, "line"))})
	}
	return lines
}

// place returns what was opened last; nil: the tab is shown.
func (t *top) place() *place {
	if len(t.places) == 0 {
		return nil
	}
	return t.places[len(t.places)-1]
}

// shown returns the table that is on the screen, sorted and narrowed, and its cursor; nil if there is another thing.
func (t *top) shown() (*table, *cursor) {
	p := t.place()
	switch {
	case p == nil:
		tab := t.tabTable(t.tab)
		tab.narrow(t.filter)
		return tab, &t.chosen
	case p.request != "":
		return nil, nil
	}
	var tab *table
	switch p.tab {
	case watchesTab:
		tab = t.watchTable(p.key)
	case planesTab:
		tab = t.planeTable(p.key)
	default:
		tab = t.requestTable(p)
	}
	tab.narrow(t.filter)
	return tab, &p.chosen
}

// tabTable makes the table of a tab, sorted as its user likes.
func (t *top) tabTable(tab int) *table {
	var out *table
	switch tab {
	case webhooksTab:
		out = t.webhookTable()
	case watchesTab:
		out = t.watchesTable()
	case planesTab:
		out = t.planesTable()
	default:
		out = t.groupTable(tab)
	}
	if by := t.sortedBy(out, tab); by >= 0 {
		out.sort(by)
	}
	return out
}

// sortedBy returns the column by which the table of a tab is sorted; -1: there is none.
func (t *top) sortedBy(of *table, tab int) int {
	columns := of.sortable()
	if len(columns) == 0 {
		return -1
	}
	return columns[t.sorts[tab]%len(columns)]
}

func number(f float64) cell { return cell{text: fmt.Sprintf("%.1f", f), by: f} }

func count(n int64) cell { return cell{text: strconv.FormatInt(n, 10), by: float64(n)} }

// bad is a cell that is seen if it is not 0.
func bad(c cell, s style) cell {
	if c.by > 0 {
		c.style = s
	}
	return c
}

// latency is a time, in colors from where people begin to wait.
func latency(d time.Duration) cell {
	c := cell{text: short(d), by: float64(d)}
	switch {
	case d >= 5*time.Second:
		c.style = red
	case d >= 500*time.Millisecond:
		c.style = yellow
	}
	return c
}

// trendColumn is the column of a table of groups that has sparklines.
const trendColumn = 1

func (t *top) groupTable(by int) *table {
	out := &table{nothing: fmt.Sprintf("nothing was asked within %v", t.window), columns: []column{{title: "REQ/S", width: 8}, {title: "LAST 5 MIN", width: 10, most: trendSteps, rank: 2, left: true}, {title: "P50", width: 7, rank: 1}, {title: "P99", width: 7},
		{title: "REFUSED/S", width: 10, rank: 4}, {title: "FAILED/S", width: 9, rank: 1}, {title: "KB/S", width: 8, rank: 3}, {title: strings.ToUpper(groupings[by]), left: true}}}
	for _, r := range t.rows(by) {
		out.entries = append(out.entries, entry{r.Key, []cell{number(r.Rate), {values: t.trends.before(trendKey{by, r.Key}, stepOf(t.now))}, latency(r.P50), latency(r.P99),
			bad(number(r.refused), yellow), bad(number(r.failed), red), number(float64(r.Bytes) / 1024 / t.window.Seconds()), {text: r.Key}}})
	}
	return out
}

func (t *top) webhookTable() *table {
	out := &table{nothing: "no webhook or policy was called", columns: []column{{title: "P50", width: 7}, {title: "P99", width: 7}, {title: "PER MIN", width: 8, rank: 1}, {title: "REFUSED", width: 8, rank: 2}, {title: "FAILED", width: 7},
		{title: "TIMED OUT", width: 10, rank: 3}, {title: "WEBHOOKS AND POLICIES", left: true}}}
	for n := range t.server.webhooks {
		h := &t.server.webhooks[n]
		out.entries = append(out.entries, entry{part(h.Step), []cell{latency(h.P50.Duration), latency(h.P99.Duration), number(h.PerMinute), bad(count(h.Refused), yellow), bad(count(h.Failed), red),
			bad(count(h.TimedOut), red), {text: part(h.Kind + " " + h.Step)}}})
	}
	return out
}

// watchOf is what a client watches, however many times. What comes first has room on the narrowest screen.
func watchOf(w *v1alpha1.Watch) string {
	what := w.Resource
	if w.Group != "" {
		what += "." + w.Group
	}
	for _, s := range []string{w.Namespace, w.Name, w.LabelSelector, w.FieldSelector} {
		if s != "" {
			what += " " + s
		}
	}
	return part(what + ": " + clientOf(w.UserAgent, w.SourceIP) + " by " + cmp.Or(w.Impersonated, w.User))
}

// watches returns those that are not top's own.
func (t *top) watches() (out []*v1alpha1.Watch) {
	for n := range t.server.watches {
		if w := &t.server.watches[n]; t.own || t.agent == "" || w.UserAgent != t.agent {
			out = append(out, w)
		}
	}
	return out
}

func (t *top) watchesTable() *table {
	out := &table{nothing: "nobody watches", columns: []column{{title: "EVENTS/S", width: 9, rank: 1}, {title: "LAG", width: 7}, {title: "NUMBER", width: 7}, {title: "EVENTS", width: 9, rank: 2}, {title: "KB", width: 9, rank: 3}, {title: "WATCHES", left: true}}}
	type group struct {
		number, events, bytes int64
		rate                  float64
		lag                   time.Duration
	}
	groups := map[string]*group{}
	for _, w := range t.watches() {
		k := watchOf(w)
		if groups[k] == nil {
			groups[k] = &group{}
		}
		g := groups[k]
		g.number, g.events, g.bytes, g.rate, g.lag = g.number+1, g.events+w.Events, g.bytes+w.Bytes, g.rate+t.server.rate[w.ObjectMeta.Name], max(g.lag, w.Lag.Duration)
	}
	for _, k := range slices.Sorted(maps.Keys(groups)) {
		g := groups[k]
		out.entries = append(out.entries, entry{k, []cell{number(g.rate), latency(g.lag), count(g.number), count(g.events), number(float64(g.bytes) / 1024), {text: k}}})
	}
	return out
}

// watchTable has each watch of what a client watches.
func (t *top) watchTable(key string) *table {
	out := &table{nothing: "these watches have ended", unsorted: true, columns: []column{{title: "EVENTS/S", width: 9}, {title: "LAG", width: 7}, {title: "EVENTS", width: 9, rank: 1}, {title: "KB", width: 9, rank: 2}, {title: "REVISION", width: 10, rank: 4}, {title: "AGE", width: 8}, {title: "WATCH", left: true}}}
	for _, w := range t.watches() {
		if watchOf(w) == key {
			out.entries = append(out.entries, entry{w.ObjectMeta.Name, []cell{number(t.server.rate[w.ObjectMeta.Name]), latency(w.Lag.Duration), count(w.Events), number(float64(w.Bytes) / 1024), count(w.Revision),
				{text: short(max(0, t.now.Sub(w.Began.Time)).Round(time.Second))}, {text: part(w.ObjectMeta.Name + " " + w.Resource)}}})
		}
	}
	return out
}

// requestTable has the newest requests of a group, or those that called a webhook.
func (t *top) requestTable(p *place) *table {
	out := &table{nothing: "no request of the last minutes", unsorted: true, columns: []column{{title: "TIME", width: 12, rank: 2, left: true}, {title: "TOOK", width: 7}, {title: "CODE", width: 4}, {title: "VERB", width: 8, rank: 1, left: true},
		{title: "SLOWEST", width: 26, rank: 4, left: true}, {title: "CLIENT", width: 24, rank: 3, left: true}, {title: "OBJECT", left: true}}}
	if p.tab == webhooksTab {
		out.columns[4] = column{title: "CALL", width: 17, rank: 1, left: true}
	}
	for n := len(t.seen) - 1; n >= 0; n-- {
		s := &t.seen[n]
		slowest := s.slowest
		if p.tab == webhooksTab {
			c := slices.IndexFunc(s.calls, func(c call) bool { return c.name == p.key })
			if c < 0 {
				continue
			}
			slowest = s.calls[c].result + " " + short(s.calls[c].took)
		} else if s.keys[p.tab] != p.key {
			continue
		}
		if s.own && !t.own {
			continue
		}
		code := cell{text: strconv.Itoa(int(s.code))}
		switch {
		case s.failed():
			code.style = red
		case s.refused():
			code.style = yellow
		}
		out.entries = append(out.entries, entry{"r" + strconv.FormatInt(s.number, 10), []cell{{text: s.time.Local().Format("15:04:05.000")}, latency(s.took), code, {text: s.verb}, {text: slowest}, {text: s.keys[1]}, {text: s.object}}})
	}
	return out
}
