package chaos

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// change is one event.
type change struct {
	version      uint64
	object, kind string
	value        string
}

// watcher watches through one server and resumes where it was.
type watcher struct {
	server  string
	changes []change
	resumed int
	reached uint64 // by events and bookmarks
	broken  string // what a watch must not do
	marked  atomic.Bool
}

// run watches until ctx ends, or past until once that is set.
func (w *watcher) run(ctx context.Context, client *kubernetes.Clientset, from string) {
	w.reached, _ = strconv.ParseUint(from, 10, 64)
	for ctx.Err() == nil && w.broken == "" {
		timeout := int64(20)
		events, err := client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{
			ResourceVersion: fmt.Sprint(w.reached), AllowWatchBookmarks: true, TimeoutSeconds: &timeout})
		if err != nil {
			w.note(err)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		for e := range events.ResultChan() {
			w.take(e)
		}
		events.Stop()
		w.resumed++
	}
}

func (w *watcher) note(err error) {
	if strings.Contains(err.Error(), "too old") || strings.Contains(err.Error(), "Expired") {
		w.broken = "it could not be resumed: " + err.Error()
	}
}

func (w *watcher) take(e watch.Event) {
	if s, ok := e.Object.(*metav1.Status); ok {
		if s.Code == 410 {
			w.broken = "it could not be resumed: " + s.Message
		}
		return
	}
	obj, ok := e.Object.(*corev1.ConfigMap)
	if !ok {
		w.broken = fmt.Sprintf("an event has a %T", e.Object)
		return
	}
	version, _ := strconv.ParseUint(obj.ResourceVersion, 10, 64)
	if e.Type == watch.Bookmark {
		if version < w.reached {
			w.broken = fmt.Sprintf("a bookmark of %d came after %d", version, w.reached)
		}
		w.reached = version
		return
	}
	if version <= w.reached {
		w.broken = fmt.Sprintf("%s of %s at %d came after %d", e.Type, obj.Name, version, w.reached)
	}
	w.reached = version
	if obj.Name == marker {
		w.marked.Store(true)
	}
	w.changes = append(w.changes, change{version, obj.Name, string(e.Type), obj.Data["value"]})
}

// arrived says that all watchers have seen the marker. They are read while they run: what counts is read after their end.
func arrived(watchers []*watcher) bool {
	return !slices.ContainsFunc(watchers, func(w *watcher) bool { return !w.marked.Load() })
}

// equalWatches compares what the watchers have seen, and returns it.
func equalWatches(t *testing.T, watchers []*watcher) []change {
	t.Helper()
	longest := watchers[0]
	for _, w := range watchers {
		if w.broken != "" {
			t.Errorf("the watch through %s: %s", w.server, w.broken)
		}
		if len(w.changes) > len(longest.changes) {
			longest = w
		}
	}
	for _, w := range watchers {
		if len(w.changes) != len(longest.changes) {
			t.Errorf("the watch through %s has %d events, that through %s has %d", w.server, len(w.changes), longest.server, len(longest.changes))
		}
		for n := range w.changes {
			if w.changes[n] != longest.changes[n] {
				t.Errorf("event %d through %s is %+v, through %s %+v", n, w.server, w.changes[n], longest.server, longest.changes[n])
				break
			}
		}
	}
	return longest.changes
}
