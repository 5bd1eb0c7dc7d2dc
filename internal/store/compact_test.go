package store

import (
	"errors"
	"strconv"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// TestCompactionEndsExactReads compacts as another server does, far behind the window's end. Exact reads of what was before end, as
// they do in kube-apiserver; the window goes on to feed watches.
func TestCompactionEndsExactReads(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	db := memory.New(clk)
	s := New(db, Options{Prefix: "/registry/", Clock: clk})
	t.Cleanup(start(t, s, db))
	v := s.View(things)
	a := create(t, v, "a", "1")
	fresh(t, s)
	if _, err := v.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := create(t, v, "b", "1")
	c := create(t, v, "c", "1")
	fresh(t, s)

	exact := func(rev int64) error {
		_, err := v.SnapshotAt(t.Context(), rev)
		return err
	}
	learns := func(value string) {
		t.Helper()
		if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: compactKey, Value: []byte(value)}}}); err != nil {
			t.Fatal(err)
		}
		s.endPast(compactedAt([]byte(value)))
	}
	// What no server writes changes nothing.
	for _, value := range []string{"", "x", "-1", strconv.FormatInt(c.Rev+1000, 10)} {
		learns(value)
		if err := exact(a.Rev); err != nil {
			t.Errorf("the key holds %q: %v", value, err)
		}
	}
	if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: compactKey, Value: strconv.AppendInt(nil, b.Rev, 10)}}}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); exact(a.Rev) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the other server's compaction is not seen")
		}
		if clk.HasWaiters() {
			clk.Step(compactedAfter)
		}
	}
	if err := exact(a.Rev); !errors.Is(err, ErrCompacted) {
		t.Errorf("before the compaction: %v", err)
	}
	if err := exact(b.Rev); err != nil {
		t.Errorf("at the compaction: %v", err)
	}
	learns(strconv.FormatInt(a.Rev, 10)) // an older round that is seen late takes nothing back
	if err := exact(a.Rev); !errors.Is(err, ErrCompacted) {
		t.Errorf("after an older round: %v", err)
	}
	w, err := v.Watch(t.Context(), WatchOptions{After: a.Rev})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if got := take(t, w, 2); len(got) != 2 || got[0] != "+b=1" {
		t.Errorf("the watch gets %v", got)
	}
}
