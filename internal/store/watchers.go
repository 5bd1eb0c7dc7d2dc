package store

import "strings"

// watchers are a view's watchers in the groups by which they are woken: all
// events, those of one namespace, or those of one trigger value. A watcher
// that is not woken by an event need not look at it: when it is woken next,
// it begins with the event that did. View.mu guards everything here.
type watchers struct {
	groups    map[string]map[*Watcher]struct{}
	triggered int // watchers in groups of trigger values
}

func (ws *watchers) init() { ws.groups = map[string]map[*Watcher]struct{}{} }

// groupOf names the group of a watcher. Groups of different kinds have
// different names.
func groupOf(o WatchOptions) string {
	if o.Trigger != "" {
		return "t/" + o.Trigger
	}
	if n := strings.IndexByte(o.Prefix, '/'); n >= 0 {
		return "n/" + o.Prefix[:n]
	}
	return ""
}

func (ws *watchers) add(w *Watcher) {
	g := ws.groups[w.group]
	if g == nil {
		g = map[*Watcher]struct{}{}
		ws.groups[w.group] = g
	}
	g[w] = struct{}{}
	if w.opts.Trigger != "" {
		ws.triggered++
	}
}

func (ws *watchers) remove(w *Watcher) {
	g := ws.groups[w.group]
	if _, ok := g[w]; !ok {
		return
	}
	delete(g, w)
	if w.opts.Trigger != "" {
		ws.triggered--
	}
	if len(g) == 0 {
		delete(ws.groups, w.group)
	}
}

// wake wakes the watchers that may want event e, which has sequence number seq.
func (ws *watchers) wake(v *View, e *Event, seq uint64) {
	if len(ws.groups) == 0 {
		return
	}
	ws.wakeGroup("", seq)
	key := e.Key()
	if n := strings.IndexByte(key, '/'); n >= 0 {
		ws.wakeGroup("n/"+key[:n], seq)
	}
	if ws.triggered == 0 {
		return
	}
	was, is := v.trigger(e.Prev), v.trigger(e.Item)
	ws.wakeGroup("t/"+is, seq)
	if was != is {
		ws.wakeGroup("t/"+was, seq)
	}
}

func (ws *watchers) wakeGroup(name string, seq uint64) {
	for w := range ws.groups[name] {
		if !w.pending {
			w.pending, w.next = true, seq
		}
		w.signal()
	}
}

// wakeAll wakes every watcher for the events from sequence number seq on.
func (ws *watchers) wakeAll(seq uint64) {
	for name := range ws.groups {
		ws.wakeGroup(name, seq)
	}
}
