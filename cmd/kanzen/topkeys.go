package main

import (
	"strings"
	"unicode/utf8"
)

// Keys as terminals send them.
const (
	keyEscape    = "\x1b"
	keyEnter     = "\r"
	keyBackspace = "\x7f"
	keyUp        = "\x1b[A"
	keyDown      = "\x1b[B"
	keyPageUp    = "\x1b[5~"
	keyPageDown  = "\x1b[6~"
	keyHome      = "\x1b[H"
	keyEnd       = "\x1b[F"
	keyBackTab   = "\x1b[Z"
)

// keysOf splits what a terminal has sent into keys.
func keysOf(sent string) (out []string) {
	for sent != "" {
		_, n := utf8.DecodeRuneInString(sent)
		if rest, ok := strings.CutPrefix(sent, "\x1b["); ok {
			n = len(sent)
			if end := strings.IndexFunc(rest, func(c rune) bool { return c >= '@' && c <= '~' }); end >= 0 {
				n = len("\x1b[") + end + 1
			}
		} else if strings.HasPrefix(sent, "\x1bO") && len(sent) > 2 { // an arrow in the other mode of keys
			out, sent = append(out, "\x1b["+sent[2:3]), sent[3:]
			continue
		}
		out, sent = append(out, sent[:n]), sent[n:]
	}
	return out
}

// press acts on a key; false ends.
func (t *top) press(key string) bool {
	switch key {
	case "\x03":
		return false
	case "\n":
		key = keyEnter
	case "\b":
		key = keyBackspace
	}
	if t.typing {
		t.typed(key)
		return true
	}
	if t.help && key != "q" {
		t.help = false
		return true
	}
	switch key {
	case "q", "\x04":
		return false
	case "?":
		t.help = true
	case "/":
		t.typing = true
	case "p", " ":
		t.paused = !t.paused
	case "o":
		t.own = !t.own
	case "s", "S":
		t.sortNext(key == "s")
	case "\t", "g":
		t.show((t.tab + 1) % t.tabCount())
	case keyBackTab:
		t.show((t.tab + t.tabCount() - 1) % t.tabCount())
	case "1", "2", "3", "4", "5", "6":
		if tab := int(key[0] - '1'); tab < t.tabCount() {
			t.show(tab)
		}
	case keyEnter:
		t.open()
	case keyEscape, keyBackspace:
		t.back()
	default:
		t.move(key)
	}
	return true
}

// typed adds a key to the filter.
func (t *top) typed(key string) {
	switch {
	case key == keyEnter:
		t.typing = false
	case key == keyEscape:
		t.typing, t.filter = false, ""
	case key == keyBackspace:
		_, n := utf8.DecodeLastRuneInString(t.filter)
		t.filter = t.filter[:len(t.filter)-n]
	case len(t.filter) < 100 && !strings.ContainsFunc(key, invisible):
		t.filter += key
	}
}

func (t *top) sortNext(forward bool) {
	if len(t.places) > 0 {
		return
	}
	columns := len(t.tabTable(t.tab).sortable())
	if columns == 0 {
		return
	}
	by := 1
	if !forward {
		by = columns - 1
	}
	t.sorts[t.tab] = (t.sorts[t.tab] + by) % columns
}

// show shows a tab.
func (t *top) show(tab int) {
	t.tab, t.places, t.chosen, t.filter = tab, nil, cursor{}, ""
}

// open opens the chosen entry. Of a request the caller fetches what the server knows.
func (t *top) open() {
	table, cur := t.shown()
	if table == nil {
		return
	}
	n := cur.settle(table.entries)
	if n < 0 {
		return
	}
	cur.key = table.entries[n].key
	p := &place{tab: t.tab, key: cur.key}
	if len(t.places) > 0 {
		if t.tab == watchesTab || t.tab == planesTab {
			return
		}
		p.request = cur.key
	}
	t.places, t.filter = append(t.places, p), ""
}

// back leaves what was opened, or removes the filter.
func (t *top) back() {
	switch {
	case t.filter != "":
		t.filter = ""
	case len(t.places) > 0:
		t.places = t.places[:len(t.places)-1]
	}
}

// pageLines is how many lines a page key moves.
const pageLines = 10

func (t *top) move(key string) {
	by := map[string]int{keyUp: -1, "k": -1, keyDown: 1, "j": 1, keyPageUp: -pageLines, keyPageDown: pageLines, keyHome: -maxSeen, keyEnd: maxSeen}[key]
	if by == 0 {
		return
	}
	if table, cur := t.shown(); table != nil {
		cur.move(table.entries, by)
	} else {
		t.place().chosen.at += by // the screen keeps it within what there is to scroll
	}
}
