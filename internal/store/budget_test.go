package store

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// TestUnusedEncodings looks for encodings that nobody asks for: these go, those that somebody asks for stay.
func TestUnusedEncodings(t *testing.T) {
	b, now := NewBudget(1<<20), time.Unix(0, 0)
	look := func() {
		now = now.Add(windowAge)
		b.dropUnused(now)
	}
	ask := func(i *Item, key string) []byte {
		got, err := i.Encoding(b, key, func(*Item) ([]byte, error) { return []byte(key), nil })
		if err != nil || string(got) != key {
			t.Fatalf("%q, %v", got, err)
		}
		return got
	}
	// So many that they are looked at in several turns.
	items := make([]*Item, 3*unusedAtATime)
	for n := range items {
		items[n] = NewItem(fmt.Sprint("n/", n), 1, []byte("value"))
		ask(items[n], "json")
		ask(items[n], "table")
	}
	look()
	if !items[0].Encoded("json") {
		t.Error("an encoding that was just made is gone")
	}
	for n, i := range items[:10] {
		if n%2 == 0 {
			ask(i, "json")
		} else if _, ok := i.Kept(b, "table"); !ok {
			t.Error("an encoding that was just made is gone")
		}
	}
	b.dropUnused(now.Add(time.Second)) // at the same time, for another store
	look()
	for n, i := range items {
		if used := n < 10; i.Encoded("json") != used || i.Encoded("table") != used {
			t.Errorf("item %d: %v, %v", n, i.Encoded("json"), i.Encoded("table"))
		}
	}
	if want := 10 * (len("json") + len("table") + 2*encodingCost); b.Used() != want {
		t.Errorf("%d bytes, not %d", b.Used(), want)
	}
	// What is gone with its item is not counted any more.
	ask(items[0], "json")
	ask(items[20], "json")
	runtime.KeepAlive(items)
	items = nil
	runtime.GC()
	look()
	if b.Used() != 0 || len(b.queue) != 0 {
		t.Errorf("%d bytes of %d encodings are left", b.Used(), len(b.queue))
	}
}
