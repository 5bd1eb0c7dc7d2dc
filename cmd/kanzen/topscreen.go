package main

import (
	"strconv"
	"strings"
)

// screen makes the lines of the screen, at most as many as it is high. It changes nothing but cursors.
func (t *top) screen(width, height int) []line {
	most := 1
	if height >= 20 {
		most = 4
	} else if height >= 10 {
		most = 2
	}
	out := t.headLines(width, most)
	if height >= 20 {
		out = append(out, line{})
	}
	out = append(out, t.tabLine(width))
	if height < 6 {
		out = nil
	}
	room := max(0, height-len(out)-1)
	if t.help {
		out = append(out, helpLines(width, room)...)
	} else {
		out = append(out, t.body(width, room)...)
	}
	out = out[:min(len(out), max(0, height-1))]
	for len(out) < height-1 {
		out = append(out, line{})
	}
	out = append(out, t.keyLine(width))
	for n := range out {
		out[n] = out[n].cut(max(0, width))
	}
	return out
}

// body draws what is opened, or the tab; below that of requests, if there is room, also the webhooks and watches.
func (t *top) body(width, room int) []line {
	p := t.place()
	if p != nil && p.request != "" {
		switch {
		case p.err != nil:
			return []line{{styled(red, "%s: %v", p.request, p.err)}}
		case p.record == nil:
			return []line{{styled(dim, "asking for %s ...", p.request)}}
		}
		return p.chosen.scrolled(waterfall(p.record, width, room), room)
	}
	tab, cur := t.shown()
	chosen, sorted := cur.settle(tab.entries), -1
	if p == nil {
		sorted = t.sortedBy(tab, t.tab)
	}
	servers, others := t.above(width, room), t.below(width, room)
	return append(append(servers, tab.lines(width, room-len(servers)-len(others), chosen, sorted)...), others...)
}

// below draws the beginnings of the tables that have no requests, below those that have.
func (t *top) below(width, room int) (out []line) {
	if len(t.places) > 0 || t.tab >= webhooksTab || room < 20 {
		return nil
	}
	for _, tab := range []int{webhooksTab, watchesTab} {
		if table := t.tabTable(tab); len(table.entries) > 0 {
			lines := table.lines(width, min(room/4, len(table.entries)+1), -1, t.sortedBy(table, tab))
			out = append(append(out, line{}), lines...)
		}
	}
	return out
}

// headLines tell how the server does, in at most so many lines below the first one.
func (t *top) headLines(width, most int) []line {
	first := line{styled(bold, "kanzen top"), styled(plainly, "  %s  %s", t.address(), t.now.Local().Format("15:04:05"))}
	if t.paused {
		first = append(first, styled(yellow, "  paused"))
	}
	if t.trouble != nil {
		first = append(first, styled(red, "  %v", t.trouble))
	} else if t.server.trouble != nil {
		first = append(first, styled(red, "  %v", t.server.trouble))
	}
	out, last := []line{first}, line{}
	for _, item := range t.facts() {
		if len(last) > 0 && last.cells()+2+item.cells() > width {
			if out = append(out, last); len(out) > most {
				return out
			}
			last = nil
		}
		if len(last) > 0 {
			last = append(last, span{"  ", plainly})
		}
		last = append(last, item...)
	}
	return append(out, last)
}

func (t *top) address() string {
	if t.asker == nil {
		return ""
	}
	return t.url
}

// facts are what the head tells, what matters most first.
func (t *top) facts() []line {
	all, s := t.all(), &t.server
	if t.trouble != nil || s.trouble != nil {
		s = &state{} // what it was before the trouble says nothing of now
	}
	var out []line
	if s.told.findings {
		switch n, errors := s.problems(); {
		case n == 0:
			out = append(out, line{styled(green, "no problems")})
		case errors > 0:
			out = append(out, line{styled(red, "%s, %s (kanzen diagnose)", several(n, "problem"), several(errors, "error"))})
		default:
			out = append(out, line{styled(yellow, "%s (kanzen diagnose)", several(n, "problem"))})
		}
	}
	of := t.trends.before(total, stepOf(t.now))
	out = append(out, line{styled(bold, "%.1f requests/s", all.Rate), span{" " + strings.TrimLeft(sparks(of[len(of)-24:]), " "), cyan}})
	out = append(out, line{rated(red, all.failed, "failed/s")}, line{rated(yellow, all.refused, "refused/s")})
	if all.Rate > 0 {
		out = append(out, line{styled(plainly, "p50 "), styled(latency(all.P50).style, "%s", short(all.P50)), styled(plainly, " p99 "), styled(latency(all.P99).style, "%s", short(all.P99))})
	}
	if s.told.process {
		out = append(out, line{styled(plainly, "CPU %.0f%%", 100*s.cpu)}, line{styled(plainly, "memory %s", size(s.memory))})
	}
	if s.told.stores {
		bytes, took, away := s.storage()
		if away {
			out = append(out, line{styled(red, "storage does not answer")})
		} else {
			out = append(out, line{styled(plainly, "storage %s", size(bytes)), styled(latency(took).style, " %s", short(took))})
		}
	}
	if s.told.levels {
		seats, taken, waiting := s.seats()
		out = append(out, line{styled(plainly, "seats %d of %d", taken, seats)}, line{rated(yellow, float64(waiting), "waiting")})
	}
	if n := s.planes.awake; n+s.planes.asleep > 0 {
		out = append(out, line{styled(plainly, "planes %d awake, %d asleep", n, s.planes.asleep)})
	}
	watches := "watches"
	if len(t.watches()) == 1 {
		watches = "watch"
	}
	return append(out, line{styled(plainly, "%d %s", len(t.watches()), watches)})
}

// several is a number of things.
func several(n int, of string) string {
	if n != 1 {
		of += "s"
	}
	return strconv.Itoa(n) + " " + of
}

// rated is a number that is seen if it is not 0.
func rated(s style, n float64, of string) span {
	if n == 0 {
		s = plainly
	}
	format := "%.1f %s"
	if n == float64(int64(n)) {
		format = "%.0f %s"
	}
	return styled(s, format, n, of)
}

// tabLine says what is shown: the tabs, or the way to what was opened. Where there is no room for all names, there is one for that of the
// tab that is shown.
func (t *top) tabLine(width int) line {
	all := tabs[:t.tabCount()]
	narrow := len(strings.Join(all, ""))+4*len(all) > width
	var l line
	for n, name := range all {
		s := styled(dim, " %d %s ", n+1, name)
		if narrow {
			s = styled(dim, " %d ", n+1)
		}
		if n == t.tab {
			s = styled(reversed, "[%d %s]", n+1, name)
		}
		l = append(l, s)
	}
	if len(t.places) > 0 {
		l = line{styled(dim, "%s", tabs[t.tab])}
		for _, p := range t.places {
			name := p.key
			if p.request != "" {
				name = p.request
			}
			l = append(l, styled(dim, " > "), styled(bold, "%s", name))
		}
	}
	return l
}

// keys are what the keys do; those that come first are shown where there is no room for all.
var keys = []struct{ key, does, about string }{
	{"?", "keys", "show or leave this page"},
	{"q", "quit", "end top; so does Ctrl-C"},
	{"/", "filter", "show only lines with a text: type it, enter ends it, esc removes it"},
	{"s", "sort", "sort by the next column; the one that counts has the mark ▾"},
	{"tab", "next", "show the next table; shift-tab the one before, 1 to 6 one of them"},
	{"enter", "open", "open the chosen line: requests, one request, calls, watches"},
	{"esc", "back", "go back to where the line was opened; so does backspace"},
	{"p", "pause", "stop and go on; so does space"},
	{"o", "own", "show or leave out the requests of top itself"},
	{"↑↓", "choose", "choose a line; so do k and j, page up and down, home and end"},
}

// keyLine is the last line of the screen.
func (t *top) keyLine(width int) line {
	if t.typing {
		return line{styled(yellow, "/%s", t.filter), span{"█", plainly}, styled(dim, "  enter ends, esc removes the filter")}
	}
	var l line
	if t.filter != "" {
		l = line{styled(yellow, "/%s  ", t.filter)}
	}
	for _, k := range keys {
		does := k.does
		if k.key == "p" && t.paused {
			does = "go on"
		}
		item := line{styled(bold, "%s", k.key), styled(dim, " %s  ", does)}
		if l.cells()+item.cells()-2 > width {
			break
		}
		l = append(l, item...)
	}
	return l
}

// helpLines say what the keys do; what is too long for a line goes on in the next.
func helpLines(width, room int) []line {
	const keyWidth = 7
	out := []line{{styled(bold, "Keys")}}
	for _, k := range keys {
		name := k.key
		for _, about := range wrapped(k.about, width-keyWidth-len("  ")) {
			out = append(out, line{styled(bold, "  %s", padded(name, keyWidth, false)), styled(plainly, "%s", about)})
			name = ""
		}
	}
	return append(out[:min(len(out), room)], line{})
}

// summaryLines is how many lines of each table a summary has.
const summaryLines = 40

// summary is what top prints without a terminal.
func (t *top) summary(width int) []line {
	out := t.headLines(width, 4)
	if t.all().Rate == 0 {
		out = append(out, line{}, line{styled(plainly, "Nothing was asked within %v.", t.window)})
	}
	for n := range tabs {
		tab := (t.tab + n) % len(tabs) // that of the planes comes first if they were asked for
		table := t.tabTable(tab)
		if len(table.entries) == 0 && (tab != planesTab || !t.onPlanes) {
			continue
		}
		if tab == planesTab && t.server.planes.isFleet() {
			out = append(append(out, line{}), t.serversTable().lines(width, summaryLines+1, -1, -1)...)
		}
		if tab < webhooksTab {
			table.columns[trendColumn].width, table.columns[trendColumn].most = 0, 0 // one window has no past
		}
		out = append(append(out, line{}), table.lines(width, summaryLines+1, -1, t.sortedBy(table, tab))...)
		if more := len(table.entries) - summaryLines; more > 0 {
			out = append(out, line{styled(plainly, unmarked+"… and %d more", more)})
		}
	}
	for n := range out {
		out[n] = out[n].cut(width)
	}
	return out
}

// wrapped breaks a text between words into lines that are no wider than a width, if its words are not.
func wrapped(text string, width int) (out []string) {
	last := ""
	for _, word := range strings.Fields(text) {
		if last != "" && cells(last)+1+cells(word) > width {
			out, last = append(out, last), ""
		}
		last = strings.TrimPrefix(last+" "+word, " ")
	}
	return append(out, last)
}
