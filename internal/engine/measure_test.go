package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var measured = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// Events are counted by their sizes once their watch reports them, and a resource that is gone has no series, whatever
// a watch that saw its end still reports.
func TestWatchMetrics(t *testing.T) {
	served := true
	m := NewMetrics(prometheus.NewRegistry(), func(schema.GroupVersionResource) bool { return served })
	counts := m.of(measured)
	var sent sentEvents
	for _, size := range []int{100, 1 << 10, 1<<10 + 1, 1 << 20} {
		sent.add(size)
	}
	if n := testutil.CollectAndCount(m, "apiserver_watch_events_total"); n != 1 {
		t.Errorf("%d series", n)
	}
	sent.report(counts)
	m.listed(measured, "cluster", time.Second)
	want := "# HELP apiserver_watch_events_sizes Bytes of the events sent to watchers.\n# TYPE apiserver_watch_events_sizes histogram\n"
	for i, limit := range eventSizes {
		want += fmt.Sprintf("apiserver_watch_events_sizes_bucket{group=\"example.com\",resource=\"widgets\",version=\"v1\",le=\"%v\"} %d\n", limit, min(2+i, 3))
	}
	want += "apiserver_watch_events_sizes_bucket{group=\"example.com\",resource=\"widgets\",version=\"v1\",le=\"+Inf\"} 4\n" +
		"apiserver_watch_events_sizes_sum{group=\"example.com\",resource=\"widgets\",version=\"v1\"} 1.050725e+06\n" +
		"apiserver_watch_events_sizes_count{group=\"example.com\",resource=\"widgets\",version=\"v1\"} 4\n"
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), "apiserver_watch_events_sizes"); err != nil {
		t.Error(err)
	}
	served = false
	sent.add(1)
	testutil.CollectAndCount(m)
	sent.report(counts)
	m.listed(measured, "cluster", time.Second)
	if n := testutil.CollectAndCount(m); n != 0 {
		t.Errorf("%d series of a resource that is gone", n)
	}
}

// What measuring adds to an event that is sent to one watcher.
func BenchmarkMeasureEvent(b *testing.B) {
	counts := NewMetrics(prometheus.NewRegistry(), func(schema.GroupVersionResource) bool { return true }).of(measured)
	for _, each := range []int{1, 100} { // events between two flushes
		b.Run(fmt.Sprintf("flushed after %d", each), func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				var sent sentEvents
				for n := 1; pb.Next(); n++ {
					sent.add(1500)
					if n%each == 0 {
						sent.report(counts)
					}
				}
			})
		})
	}
}
