package store

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	w := window{limit: 10 * 256}
	w.reset(100)
	at := time.Unix(0, 0)
	add := func(rev int64) { w.append(&Event{Rev: rev, Item: &Item{}, at: at}) }
	state := func() string {
		revs := []int64{}
		for _, e := range w.events {
			revs = append(revs, e.Rev)
		}
		return fmt.Sprintf("after %d: %v, %d bytes", w.start, revs, w.bytes)
	}
	for rev := int64(101); rev <= 105; rev++ {
		add(rev)
	}
	from := w.after(103)
	if events, ok := w.since(from); !ok || len(events) != 2 || events[0].Rev != 104 {
		t.Errorf("since 103: %v, %v", events, ok)
	}
	for range 7 { // one transaction; older events are dropped by whole revisions
		add(106)
	}
	if got, want := state(), "after 102: [103 104 105 106 106 106 106 106 106 106], 2560 bytes"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for rev := int64(107); rev <= 110; rev++ {
		add(rev)
	}
	if got, want := state(), "after 106: [107 108 109 110], 1024 bytes"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, ok := w.since(from); ok {
		t.Error("a place that was cut off is still there")
	}
	at = at.Add(windowAge / 2)
	add(111)
	w.cut(at.Add(windowAge/2+time.Second), 0)
	if got, want := state(), "after 110: [111], 256 bytes"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	w.cut(at.Add(2*windowAge), 0)
	if got, want := state(), "after 111: [], 0 bytes"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	last := w.next()
	w.reset(200)
	if _, ok := w.since(last); ok {
		t.Error("a place in the window before the reset is still there")
	}
	// The underlying array does not keep the events that were cut off.
	for rev := int64(201); rev < 2000; rev++ {
		add(rev)
		if w.dead > len(w.events)+16 {
			t.Fatalf("%d events are held beside %d", w.dead, len(w.events))
		}
	}
}

// FuzzKeys feeds arbitrary keys of etcd to views.
func FuzzKeys(f *testing.F) {
	for _, k := range []string{"things/ns/a", "things/", "things", "things//", "group.io/foos/a", "group.io/foos", "", "/", "//", "a\x00/b/\xff"} {
		f.Add(k)
	}
	f.Fuzz(func(t *testing.T, key string) {
		v := loadedView(0)
		s := v.store
		other := s.View(Kind{Prefix: "group.io/foos/"})
		other.state = loaded
		for n, v := range []*View{v, other} {
			full := "/registry/" + key
			put := putEvent(int64(2*n+1), full, "n1|x")
			s.apply(t.Context(), put)
			i := (*Item)(nil)
			if below, ok := strings.CutPrefix(full, v.etcdPrefix); ok {
				if i, _ = v.items.Get(below); i == nil {
					t.Fatalf("%q is not in its view", key)
				}
				if ns := i.Namespace(); !strings.HasPrefix(i.Key, ns) || !strings.HasSuffix(i.Key, i.Name()) {
					t.Errorf("%q: namespace %q, name %q", key, ns, i.Name())
				}
			}
			if want := map[bool]int{true: 1}[i != nil]; v.items.Len() != want {
				t.Errorf("%q: %d items in %s", key, v.items.Len(), v.kind.Prefix)
			}
			put[0].Deleted, put[0].ModRevision = true, int64(2*n+2)
			s.apply(t.Context(), put)
			if v.items.Len() != 0 {
				t.Errorf("%q: still there after its deletion", key)
			}
		}
	})
}
