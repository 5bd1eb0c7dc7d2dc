package store

import "strings"

// watchers are a view's watchers in the groups by which they are woken: all
// events, those of one namespace (or of each of several), of one object, or of one trigger value. A watcher
// that is not woken by an event need not look at it: when it is woken next,
// it begins with the event that did. View.mu guards everything here.
type watchers struct {
	groups map[group]map[*Watcher]struct{}
	sizes  [byTrigger + 1]int // how many watchers there are in groups of each kind
}

// group is what wakes a watcher.
type group struct {
	by    grouping
	value string
}

type grouping int

const (
	byAnything grouping = iota
	byNamespace
	byKey
	byTrigger
)

func (ws *watchers) init() { ws.groups = map[group]map[*Watcher]struct{}{} }

// groupsOf are the smallest groups that are woken by all events that a watcher wants.
func groupsOf(o WatchOptions) []group {
	switch {
	case o.Exact:
		return []group{{byKey, o.Prefix}}
	case len(o.Triggers) > 0:
		return groupsBy(byTrigger, o.Triggers)
	case o.Namespaces != nil && len(o.Namespaces) == 0:
		return []group{{by: byNamespace}} // no event is in it, and it is woken when the view is reset
	case o.Namespaces != nil:
		return groupsBy(byNamespace, o.Namespaces)
	}
	if n := strings.IndexByte(o.Prefix, '/'); n >= 0 {
		return []group{{byNamespace, o.Prefix[:n]}}
	}
	return []group{{}}
}

func groupsBy(by grouping, values []string) []group {
	groups := make([]group, len(values))
	for n, value := range values {
		groups[n] = group{by, value}
	}
	return groups
}

func (ws *watchers) add(w *Watcher) {
	for _, group := range w.groups {
		g := ws.groups[group]
		if g == nil {
			g = map[*Watcher]struct{}{}
			ws.groups[group] = g
		}
		g[w] = struct{}{}
		ws.sizes[group.by]++
	}
}

func (ws *watchers) remove(w *Watcher) {
	for _, group := range w.groups {
		g := ws.groups[group]
		if _, ok := g[w]; !ok {
			continue
		}
		delete(g, w)
		ws.sizes[group.by]--
		if len(g) == 0 {
			delete(ws.groups, group)
		}
	}
}

// wake wakes the watchers that may want event e, which has sequence number seq.
func (ws *watchers) wake(v *View, e *Event, seq uint64) {
	if len(ws.groups) == 0 {
		return
	}
	ws.wakeGroup(group{}, seq)
	key := e.Key()
	ws.wakeGroup(group{byKey, key}, seq)
	if n := strings.IndexByte(key, '/'); n >= 0 {
		ws.wakeGroup(group{byNamespace, key[:n]}, seq)
	}
	if ws.sizes[byTrigger] == 0 {
		return
	}
	was, is := v.trigger(e.Prev), v.trigger(e.Item)
	ws.wakeGroup(group{byTrigger, is}, seq)
	if was != is {
		ws.wakeGroup(group{byTrigger, was}, seq)
	}
}

func (ws *watchers) wakeGroup(g group, seq uint64) {
	if ws.sizes[g.by] == 0 {
		return
	}
	for w := range ws.groups[g] {
		if !w.pending {
			w.pending, w.next = true, seq
		}
		w.signal()
	}
}

// wakeAll wakes every watcher for the events from sequence number seq on.
func (ws *watchers) wakeAll(seq uint64) {
	for g := range ws.groups {
		ws.wakeGroup(g, seq)
	}
}
