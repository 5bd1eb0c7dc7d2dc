package peers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// watcher follows a collection: from where it was when its server ends.
type watcher struct {
	*load
	collection string
	revision   string

	mu     sync.Mutex
	values map[string]int64 // seen, by name; guarded by mu
}

func (w *watcher) run() {
	for w.ctx.Err() == nil {
		w.watch()
	}
}

func (w *watcher) watch() {
	req, err := http.NewRequestWithContext(w.ctx, "GET", w.c.Host+w.collection+"?watch=1&resourceVersion="+w.revision, nil)
	if err != nil {
		return
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusGone {
		w.again()
	}
	if resp.StatusCode != http.StatusOK {
		return
	}
	events := bufio.NewScanner(resp.Body)
	for events.Buffer(nil, 1<<20); events.Scan(); {
		var e struct {
			Type   string
			Object map[string]any
		}
		if json.Unmarshal(events.Bytes(), &e) != nil {
			return // it was cut off
		}
		if e.Type == "ERROR" {
			if code, _ := e.Object["code"].(float64); code == http.StatusGone {
				w.again()
			}
			return
		}
		w.see(e.Type, e.Object)
	}
}

// see takes an event: the next value of an object, or its first.
func (w *watcher) see(kind string, object map[string]any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name, value := object["metadata"].(map[string]any)["name"].(string), valueOf(object)
	last, known := w.values[name]
	want := "MODIFIED"
	if !known {
		last, want = -1, "ADDED"
	}
	if kind != want || value != last+1 {
		w.t.Errorf("%s: the watch of %s sees %s %s with the value %d after %d", *w.turn.Load(), w.collection, kind, name, value, last)
		w.cancel()
	}
	if revision := revisionOf(object); number(revision) <= number(w.revision) {
		w.t.Errorf("%s: the watch of %s sees the revision %s after %s", *w.turn.Load(), w.collection, revision, w.revision)
	}
	w.values[name], w.revision = value, revisionOf(object)
}

// again lists where a watch cannot be resumed: kube-apiserver has not what was before it began to serve a definition.
func (w *watcher) again() {
	if !strings.Contains(*w.turn.Load(), kube) {
		w.t.Errorf("%s: the watch of %s cannot be resumed", *w.turn.Load(), w.collection)
	}
	w.relisted.Add(1)
	revision, found := w.list()
	if revision == "" {
		return // the next attempt asks again
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, value := range found {
		if value < w.values[name] {
			w.t.Errorf("%s: %s/%s has the value %d after %d", *w.turn.Load(), w.collection, name, value, w.values[name])
		}
		w.values[name] = value
	}
	w.revision = revision
}

// list returns the values of a collection by name, and its revision; "": there was no answer.
func (w *watcher) list() (revision string, values map[string]int64) {
	code, list := w.send(http.MethodGet, w.collection, nil)
	if code != http.StatusOK {
		return "", nil
	}
	values = map[string]int64{}
	items, _ := list["items"].([]any)
	for _, item := range items {
		if o := item.(map[string]any); strings.HasPrefix(fmt.Sprint(o["metadata"].(map[string]any)["name"]), "w") {
			values[o["metadata"].(map[string]any)["name"].(string)] = valueOf(o)
		}
	}
	return revisionOf(list), values
}

// value is the last value that was seen of an object.
func (w *watcher) value(name string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if value, ok := w.values[name]; ok {
		return value
	}
	return -1
}

// valueOf is the value that a writer has given an object; -1: none.
func valueOf(object map[string]any) int64 {
	meta, _ := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	text, _ := annotations["value"].(string)
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return value
}

func revisionOf(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	revision, _ := meta["resourceVersion"].(string)
	return revision
}

func number(revision string) int64 {
	n, _ := strconv.ParseInt(revision, 10, 64)
	return n
}
