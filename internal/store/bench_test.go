package store

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// loadedView is a view of n objects without an etcd; feed gives it events.
func loadedView(n int) *View {
	s := New(nil, Options{Prefix: "/registry/"})
	v := s.View(nodes)
	v.state = loaded
	for n := range n {
		feed(v, int64(n+1), fmt.Sprintf("ns%d/name-%d", n%30, n), "n0|"+strings.Repeat("x", 1000))
	}
	return v
}

func putEvent(rev int64, key, value string) []kv.Event {
	return []kv.Event{{KeyValue: kv.KeyValue{Key: []byte(key), Value: []byte(value), ModRevision: rev}}}
}

func feed(v *View, rev int64, key, value string) {
	v.store.apply(context.Background(), putEvent(rev, v.etcdPrefix+key, value))
	v.store.follow.advance(rev)
}

func BenchmarkGet(b *testing.B) {
	v := loadedView(3000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Get(b.Context(), "ns7/name-7"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetParallel(b *testing.B) {
	v := loadedView(3000)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := v.Get(b.Context(), "ns7/name-7"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkList3000(b *testing.B) {
	v := loadedView(3000)
	b.ReportAllocs()
	for b.Loop() {
		s, err := v.Snapshot(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		if err := s.Ascend(b.Context(), Range{}, func(*Item) bool { n++; return true }); err != nil || n != 3000 {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkSnapshotAt(b *testing.B) {
	for _, back := range []int64{10, 1000} {
		b.Run(fmt.Sprintf("back=%d", back), func(b *testing.B) {
			v := loadedView(3000)
			b.ReportAllocs()
			for b.Loop() {
				if s, err := v.SnapshotAt(b.Context(), 3000-back); err != nil || length(b, s) != 3000-back {
					b.Fatal(err)
				}
			}
		})
	}
}

// One event to a thousand watchers, polled one after the other.
func BenchmarkFanOut(b *testing.B) {
	for _, c := range []struct {
		name string
		opts func(n int) WatchOptions
		each int // watchers that an event is for
	}{
		{"all", func(int) WatchOptions { return WatchOptions{} }, 1000},
		{"namespace", func(n int) WatchOptions { return WatchOptions{Prefix: fmt.Sprintf("ns%d/", n)} }, 1},
		{"object", func(n int) WatchOptions { return WatchOptions{Prefix: fmt.Sprintf("ns0/name-%d", n), Exact: true} }, 1},
		{"trigger", func(n int) WatchOptions { return WatchOptions{Triggers: []string{fmt.Sprintf("n%d", n)}} }, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			v := loadedView(3000)
			rev := v.store.Revision()
			var watchers []*Watcher
			for n := range 1000 {
				o := c.opts(n)
				o.After = rev
				w, err := v.Watch(b.Context(), o)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := w.Poll(b.Context()); err != nil {
					b.Fatal(err)
				}
				<-w.wake
				watchers = append(watchers, w)
			}
			value := "n0|" + strings.Repeat("x", 1000)
			b.ReportAllocs()
			for b.Loop() {
				rev++
				feed(v, rev, "ns0/name-0", value)
				got := 0
				for _, w := range watchers {
					select {
					case <-w.Ready():
						events, _ := w.Poll(b.Context())
						got += len(events)
					default:
					}
				}
				if got != c.each {
					b.Fatalf("%d events, want %d", got, c.each)
				}
			}
		})
	}
}

// An event of etcd into a view that nobody watches.
func BenchmarkApply(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			v := loadedView(3000)
			rev := v.store.Revision()
			value := bytes.Repeat([]byte("x"), 1000)
			var all [][]byte
			for n := range 3000 {
				all = append(all, fmt.Appendf(nil, "/registry/things/ns%d/name-%d", n%30, n))
			}
			events := make([]kv.Event, batch)
			b.ReportAllocs()
			for n := 0; b.Loop(); {
				for i := range events {
					rev++
					n = (n + 1) % len(all)
					events[i] = kv.Event{KeyValue: kv.KeyValue{Key: all[n], Value: value, ModRevision: rev}}
				}
				v.store.apply(b.Context(), events)
				v.store.follow.advance(rev)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/event")
		})
	}
}

// Writes through the embedded etcd, without fsync.
func BenchmarkCreate(b *testing.B) {
	v := open(b).View(things)
	value := bytes.Repeat([]byte("x"), 1000)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if _, err := v.Create(b.Context(), fmt.Sprintf("ns/%d", n), Write{Value: value}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	s := open(b)
	v := s.View(things)
	value := bytes.Repeat([]byte("x"), 1000)
	i := create(b, v, "ns/a", "")
	b.ReportAllocs()
	for b.Loop() {
		next, err := v.Update(b.Context(), i, Write{Value: value})
		if err != nil {
			b.Fatal(err)
		}
		i = next
	}
}

// A write, and the read after it that must see it.
func BenchmarkUpdateThenFreshGet(b *testing.B) {
	s := open(b)
	v := s.View(things)
	value := bytes.Repeat([]byte("x"), 1000)
	i := create(b, v, "ns/a", "")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Update(b.Context(), i, Write{Value: value}); err != nil {
			b.Fatal(err)
		}
		if err := s.Fresh(b.Context()); err != nil {
			b.Fatal(err)
		}
		var err error
		if i, err = v.Get(b.Context(), "ns/a"); err != nil {
			b.Fatal(err)
		}
	}
}
