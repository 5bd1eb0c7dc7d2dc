package etcd

import (
	"testing"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Etcd may leave out what was there before a change, though it has it.
func TestPrevIsAdded(t *testing.T) {
	db, err := OpenEmbedded(t.Context(), Embedded{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var revs []int64
	for _, value := range []string{"1", "2", "3", "4"} {
		done, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "k", Value: []byte(value)}}})
		if err != nil {
			t.Fatal(err)
		}
		revs = append(revs, done.Rev)
	}
	if err := db.Compact(t.Context(), revs[2]); err != nil {
		t.Fatal(err)
	}
	change := func(n int) kv.Event {
		return kv.Event{KeyValue: kv.KeyValue{Key: []byte("k"), CreateRevision: revs[0], ModRevision: revs[n]}}
	}
	events := []kv.Event{change(0), change(1), change(3)}
	if err := db.addPrev(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{"", "", "3"} { // created, compacted, still there
		if got := string(events[n].Prev.Value); got != want {
			t.Errorf("before change %d: %q, want %q", n, got, want)
		}
	}
}
