package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// words is a value of about n bytes, of which some are like others'.
func words(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "word-%d ", r.Intn(1000))
	}
	return b.String()
}

// packedStore has a view of n values of about 500 bytes, and keeps only so many bytes as they are.
func packedStore(t *testing.T, n int, plain int64) (*Store, *View, map[string]string) {
	db := memory.New(clock.RealClock{})
	s := New(db, Options{Prefix: "/registry/"})
	s.values.limit = plain
	v := s.View(things)
	want, r := map[string]string{}, rand.New(rand.NewSource(1))
	for i := range n {
		key := fmt.Sprintf("ns/%05d", i)
		want[key] = words(r, 1+r.Intn(1000))
		if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: v.Path(key), Value: []byte(want[key])}}}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	if err := s.Fresh(t.Context()); err != nil { // it runs
		t.Fatal(err)
	}
	if _, err := v.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, v, want
}

// holds compares the values of a view, read one by one and as those of a list.
func holds(t *testing.T, v *View, want map[string]string) {
	t.Helper()
	snap, err := v.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	var r Values
	err = snap.Ascend(t.Context(), Range{}, func(i *Item) bool {
		n++
		if got := string(r.Of(i)); got != want[i.Key] || i.Size() != len(got) {
			t.Errorf("%s is %q in a list, not %q", i.Key, got, want[i.Key])
		}
		return true
	})
	if err != nil || n != len(want) {
		t.Errorf("%d values, %v; want %d", n, err, len(want))
	}
	for key, value := range want {
		if i, err := v.Get(t.Context(), key); err != nil || string(i.Value()) != value {
			t.Errorf("%s is %q, %v; not %q", key, i.Value(), err, value)
		}
	}
}

// state returns the bytes of all values of a view and of those that are not compressed, counted and as the view says.
func state(v *View) (all, plain, said int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.items.Scan(func(_ string, i *Item) bool {
		all += int64(i.Size())
		if _, ok := i.inMemory(); ok {
			plain += int64(i.Size())
		}
		return true
	})
	return all, plain, v.plain
}

// A view that is loaded keeps no more values as they are than the limit, and all are what they were.
func TestLoadedViewIsPacked(t *testing.T) {
	_, v, want := packedStore(t, 1000, 100<<10)
	all, plain, said := state(v)
	if plain > 100<<10 || plain < 99<<10 || plain != said || all < 400<<10 {
		t.Errorf("%d bytes, %d of them as they are; the view says %d", all, plain, said)
	}
	holds(t, v, want)
}

// Values that were asked for are compressed only when nobody has asked for them since the last time; what is written later is kept until then.
func TestPackLeavesWhatIsRead(t *testing.T) {
	s, v, want := packedStore(t, 200, 1<<30)
	if all, plain, said := state(v); all != plain || plain != said {
		t.Fatalf("%d bytes, %d as they are, said to be %d", all, plain, said)
	}
	get := func(key string) *Item {
		i, err := v.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	isPlain := func(key string) bool { _, ok := get(key).inMemory(); return ok }
	s.values.limit = 0
	asked := get("ns/00007")
	if asked.Value(); asked.slot.Load() != nil {
		t.Fatal("compressed early")
	}
	s.values.pack(t.Context())
	if !isPlain("ns/00007") || isPlain("ns/00008") || isPlain("ns/00199") {
		t.Error("not compressed, or although asked for")
	}
	s.values.pack(t.Context())
	if _, plain, said := state(v); plain != 0 || said != 0 {
		t.Errorf("%d bytes as they are, said to be %d", plain, said)
	}
	i, err := v.Update(t.Context(), get("ns/00100"), Write{Value: []byte("new")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WaitFor(t.Context(), i.Rev); err != nil {
		t.Fatal(err)
	}
	want["ns/00100"] = "new"
	if _, plain, said := state(v); plain != 3 || said != 3 {
		t.Errorf("%d bytes as they are, said to be %d", plain, said)
	}
	holds(t, v, want)
}

// A block of which little is left is given up: nothing keeps what was replaced for long.
func TestSparseBlocksArePackedAgain(t *testing.T) {
	s, v, want := packedStore(t, 400, 0)
	first, err := v.Get(t.Context(), "ns/00000")
	if err != nil {
		t.Fatal(err)
	}
	was := first.slot.Load().block
	for n := 1; n < was.items; n++ {
		key := fmt.Sprintf("ns/%05d", n)
		i, err := v.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if i, err = v.Update(t.Context(), i, Write{Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		want[key] = "x"
		if err := s.WaitFor(t.Context(), i.Rev); err != nil {
			t.Fatal(err)
		}
	}
	s.values.pack(t.Context())
	if now := first.slot.Load().block; now == was {
		t.Errorf("a block of %d items is kept for one", was.items)
	}
	holds(t, v, want)
}

// Readers and writers do not notice that values are compressed meanwhile.
func TestPackWhileInUse(t *testing.T) {
	s, v, want := packedStore(t, 300, 1<<30)
	s.values.limit = 0
	var use sync.WaitGroup
	for n := range 4 {
		use.Go(func() {
			r := rand.New(rand.NewSource(int64(n)))
			var values Values
			for range 300 {
				key := fmt.Sprintf("ns/%05d", r.Intn(100)*3+n%3)
				i, err := v.Get(t.Context(), key)
				if err != nil {
					t.Error(err)
					return
				}
				got := string(values.Of(i))
				if got != string(i.Value()) {
					t.Errorf("%s is read as %q and as %q", key, got, i.Value())
				}
				if n == 3 {
					var conflict *ConflictError // the view was behind
					if _, err := v.Update(t.Context(), i, Write{Value: []byte(got)}); err != nil && !errors.As(err, &conflict) {
						t.Error(err)
					}
				}
				if n < 3 && got != want[key] {
					t.Errorf("%s is %q, not %q", key, got, want[key])
				}
			}
		})
	}
	for range 30 {
		s.values.pack(t.Context())
	}
	use.Wait()
	if err := s.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, plain, said := state(v); plain != said {
		t.Errorf("%d bytes as they are, said to be %d", plain, said)
	}
	v.reset()
	holds(t, v, want)
}

// There are as many items as objects: one more word in each is 16 MB for a million.
func TestItemIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Item{}); size > 112 {
		t.Errorf("an item has %d bytes", size)
	}
}

func BenchmarkValues(b *testing.B) {
	var bl blocks
	r := rand.New(rand.NewSource(1))
	var items []*Item
	for len(items) < 10000 {
		var run []*Item
		for size := 0; size < blockBytes; size += 1000 {
			run = append(run, NewItem("k", 1, []byte(words(r, 1000))))
		}
		bl.pack(run)
		items = append(items, run...)
	}
	b.Run("list", func(b *testing.B) {
		var v Values
		b.SetBytes(1000)
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			v.Of(items[n%len(items)])
		}
	})
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			items[n*101%len(items)].Value()
		}
	})
}
