package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// testTransactions changes several keys at one revision, or none of them.
func testTransactions(t *testing.T, e Engine) {
	db := opened(t, e)
	a, b := put(t, db, "a", "1"), put(t, db, "b", "1")
	both := func(a, b int64) kv.Txn {
		return kv.Txn{
			If:   []kv.Condition{{Key: "a", N: a}, {Key: "b", N: b}, {Key: "c"}},
			Then: []kv.Op{{Key: "b", Value: []byte("2")}, {Key: "a", Delete: true}, {Key: "c", Value: []byte("2")}},
			Else: []string{"c", "b", "a"},
		}
	}
	for _, wrong := range []kv.Txn{both(a-1, b), both(a, b-1), both(0, b)} {
		done, err := db.Commit(t.Context(), wrong)
		if err != nil || done.Held || len(done.Else) != 3 || done.Else[0] != nil || done.Else[1].ModRevision != b || string(done.Else[2].Value) != "1" || done.Rev != b {
			t.Errorf("%+v: %+v, %v", wrong, done, err)
		}
	}
	rev := commit(t, db, both(a, b))
	if rev != b+1 {
		t.Errorf("three changes at %d, want %d", rev, b+1)
	}
	if got, want := watched(t, db, kv.Watch{Prefix: true, From: rev, Until: rev}), fmt.Sprintf("true a=(0,%d,0) <=(0,0,0) false b=2(%d,%d,2) <=(0,0,0) false c=2(%d,%d,1) <=(0,0,0)  up to %d, <nil>", rev, b, rev, rev, rev, rev); got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	// What changes nothing has no revision.
	if got := commit(t, db, kv.Txn{Then: []kv.Op{{Key: "none", Delete: true}}}); got != rev {
		t.Errorf("deleting nothing is revision %d", got)
	}
}

// testBounds has transactions and values as large as all databases take them, and larger than this one does.
func testBounds(t *testing.T, e Engine) {
	db := opened(t, e)
	var txn kv.Txn
	if db.MaxOps() < kv.MaxOps {
		t.Errorf("%d operations", db.MaxOps())
	}
	most := min(db.MaxOps(), 4096)
	for n := range most {
		key := fmt.Sprintf("many/%03d", n)
		txn.If, txn.Then = append(txn.If, kv.Condition{Key: key}), append(txn.Then, kv.Op{Key: key})
		txn.Else = append(txn.Else, key)
	}
	commit(t, db, txn)
	if done, err := db.Commit(t.Context(), txn); err != nil || done.Held || len(done.Else) != most || done.Else[most-1] == nil {
		t.Errorf("again: %v, %v", done.Held, err)
	}
	before, err := db.Size(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	commit(t, db, kv.Txn{Then: []kv.Op{{Key: "large", Value: bytes.Repeat([]byte("x"), kv.MaxBytes)}}})
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		after, err := db.Size(t.Context())
		if err == nil && after.Bytes >= before.Bytes && after.InUse > before.InUse && after.InUse <= after.Bytes {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the size was %+v, with a value of %d bytes it is %+v, %v", before, kv.MaxBytes, after, err)
		}
	}
	if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "small"}, {Key: "too large", Value: make([]byte, 16<<20)}}}); !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("16 MB: %v", err)
	}
	if n, err := db.Range(t.Context(), kv.Range{Key: "small", CountOnly: true}, nil); n.Count != 0 || err != nil {
		t.Errorf("a part of a refused transaction is there: %v", err)
	}
	if err := errors.Join(db.Ping(t.Context()), db.Writable(t.Context())); err != nil {
		t.Error(err)
	}
}

// testWatch begins watches at all revisions, of the past and of the future: each
// gets the same changes from there on, none twice, and transactions whole.
func testWatch(t *testing.T, e Engine) {
	db := opened(t, e)
	first := put(t, db, "w/0", "")
	last := first + 40
	var watching sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for from := first; from <= last; from++ {
		watching.Go(func() {
			next := from
			err := db.Watch(ctx, kv.Watch{Key: "w/", Prefix: true, From: from, Until: last, Prev: true}, func(events []kv.Event, rev int64) error {
				seen := map[int64]int{}
				for _, e := range events {
					seen[e.ModRevision]++
				}
				for rev := range seen {
					if want := 1 + int(rev-first)%3; rev < next || seen[rev] != want {
						return fmt.Errorf("%d changes of revision %d, after %d", seen[rev], rev, next-1)
					}
				}
				for ; next <= rev; next++ {
					if seen[next] == 0 {
						return fmt.Errorf("nothing of revision %d up to %d", next, rev)
					}
				}
				return nil
			})
			if err != nil || next != last+1 {
				t.Errorf("a watch from %d to %d ended at %d: %v", from, last, next, err)
			}
		})
	}
	for rev := first + 1; rev <= last; rev++ {
		var txn kv.Txn
		for n := range 1 + int(rev-first)%3 {
			txn.Then = append(txn.Then, kv.Op{Key: fmt.Sprintf("w/%d", n), Value: fmt.Append(nil, rev)})
		}
		if got := commit(t, db, txn); got != rev {
			t.Fatalf("revision %d, want %d", got, rev)
		}
	}
	watching.Wait()
	boom := errors.New("boom")
	if err := db.Watch(ctx, kv.Watch{Key: "w/", Prefix: true, From: first}, func([]kv.Event, int64) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("a reader that gave up got %v", err)
	}
}

// testProgress asks a watch how far it is, while only other keys change, and another watch waits for a revision that is far away.
func testProgress(t *testing.T, e Engine) {
	db := opened(t, e)
	head := put(t, db, "elsewhere", "")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	others.Go(func() {
		_ = db.Watch(ctx, kv.Watch{Key: "v/", Prefix: true, From: head + 1000}, func([]kv.Event, int64) error { return nil })
	})
	ask, reached, done := make(chan struct{}), make(chan int64, 100), make(chan error, 1)
	go func() {
		done <- db.Watch(ctx, kv.Watch{Key: "w/", Prefix: true, From: head + 1, Ask: ask}, func(events []kv.Event, rev int64) error {
			if len(events) > 0 {
				return errors.New("events of other keys")
			}
			reached <- rev
			return nil
		})
	}()
	want := put(t, db, "elsewhere", "again")
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for at := int64(0); at < want; {
		var asked chan<- struct{}
		select {
		case <-again.C:
			asked = ask
		case at = <-reached:
			continue
		case err := <-done:
			t.Fatal(err)
		}
		select {
		case asked <- struct{}{}:
		case at = <-reached:
		case <-time.After(20 * time.Millisecond): // a database that needs not be asked does not listen
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// testSlow has a reader of a watch that stands still while much is written: others are told of it at once, and it of everything, in order, once
// it goes on.
func testSlow(t *testing.T, e Engine) {
	db := opened(t, e)
	head := put(t, db, "elsewhere", "")
	const writes = 200
	last := head + writes
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	watch := func(stand func()) error {
		next := head + 1
		return db.Watch(ctx, kv.Watch{Key: "w/", Prefix: true, From: next, Until: last}, func(events []kv.Event, _ int64) error {
			for n := range events {
				if got := events[n].ModRevision; got != next {
					return fmt.Errorf("told of revision %d, want %d", got, next)
				}
				next++
			}
			stand()
			return nil
		})
	}
	stands, goOn, slow, other := make(chan bool), make(chan bool), make(chan error, 1), make(chan error, 1)
	var once sync.Once
	go func() {
		slow <- watch(func() { once.Do(func() { close(stands); <-goOn }) })
	}()
	value := kv.Op{Key: "w/a", Value: bytes.Repeat([]byte("x"), 32_000)}
	commit(t, db, kv.Txn{Then: []kv.Op{value}})
	<-stands
	go func() { other <- watch(func() {}) }()
	for range writes - 1 { // more bytes than what a watch may keep
		commit(t, db, kv.Txn{Then: []kv.Op{value}})
	}
	if err := <-other; err != nil {
		t.Errorf("a watch beside one that stands still: %v", err)
	}
	close(goOn)
	if err := <-slow; err != nil {
		t.Errorf("the one that stood still: %v", err)
	}
}

// testHistory reads the past up to a compaction.
func testHistory(t *testing.T, e Engine) {
	db := opened(t, e)
	var revs []int64
	for n := range 10 {
		revs = append(revs, put(t, db, "a", fmt.Sprint(n)))
	}
	deleted := commit(t, db, kv.Txn{Then: []kv.Op{{Key: "a", Delete: true}}})
	check := func(from int) {
		t.Helper()
		for n, rev := range revs {
			got, _, err := value(t.Context(), db, "a", rev)
			if n < from && !errors.Is(err, kv.ErrCompacted) || n >= from && (err != nil || got != fmt.Sprint(n)) {
				t.Errorf("at revision %d, of which %d are compacted: %q, %v", n, from, got, err)
			}
		}
		if got, _, err := value(t.Context(), db, "a", deleted); got != "" || err != nil {
			t.Errorf("after the deletion: %q, %v", got, err)
		}
	}
	check(0)
	if err := db.Compact(t.Context(), deleted+1); !errors.Is(err, kv.ErrFuture) {
		t.Errorf("compacting the future: %v", err)
	}
	if err := db.Compact(t.Context(), revs[5]); err != nil {
		t.Fatal(err)
	}
	check(5)
	for _, rev := range []int64{revs[5], revs[2]} {
		if err := db.Compact(t.Context(), rev); !errors.Is(err, kv.ErrCompacted) {
			t.Errorf("compacting again: %v", err)
		}
	}
	if _, _, err := value(t.Context(), db, "a", deleted+1); !errors.Is(err, kv.ErrFuture) {
		t.Errorf("reading the future: %v", err)
	}
	none := func([]kv.Event, int64) error { return errors.New("there should be nothing") }
	if err := db.Watch(t.Context(), kv.Watch{Key: "a", From: revs[3], Until: deleted}, none); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("watching what is compacted: %v", err)
	}
	if got := watched(t, db, kv.Watch{Key: "a", From: revs[6], Until: deleted, Prev: true}); !strings.Contains(got, "a=6(") || !strings.Contains(got, "<nil>") {
		t.Errorf("watching what is not: %s", got)
	}
	if err := db.Compact(t.Context(), deleted); err != nil {
		t.Error(err)
	}
}

// testExpiry has keys that end, and some that do not after all.
func testExpiry(t *testing.T, e Engine) {
	db := opened(t, e)
	const ttl = 2 * time.Second
	began := time.Now()
	for _, key := range []string{"ends", "kept", "freed", "longer", "gone"} {
		commit(t, db, kv.Txn{Then: []kv.Op{{Key: key, Value: []byte("1"), TTL: ttl}}})
	}
	commit(t, db, kv.Txn{Then: []kv.Op{{Key: "kept", Value: []byte("2"), KeepTTL: true}, {Key: "freed", Value: []byte("2")}}})
	commit(t, db, kv.Txn{Then: []kv.Op{{Key: "longer", Value: []byte("2"), TTL: time.Hour}, {Key: "gone", Delete: true}}})
	from := put(t, db, "gone", "2") + 1
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := map[string]bool{}
	enough := errors.New("enough")
	err := db.Watch(ctx, kv.Watch{Prefix: true, From: from}, func(events []kv.Event, _ int64) error {
		for _, e := range events {
			if !e.Deleted {
				return fmt.Errorf("%s was put", e.Key)
			}
			ended[string(e.Key)] = true
		}
		if len(ended) >= 2 {
			return enough
		}
		return nil
	})
	if took := time.Since(began); !errors.Is(err, enough) || !ended["ends"] || !ended["kept"] || took < ttl {
		t.Errorf("after %v these ended: %v, %v", took, ended, err)
	}
	for _, key := range []string{"freed", "longer", "gone"} {
		if got, _, err := value(t.Context(), db, key, 0); got != "2" || err != nil {
			t.Errorf("%s is %q, %v", key, got, err)
		}
	}
}

// testSnapshots reads all keys in pages, at one revision, while they change. Each transaction puts the same value
// under all of them.
func testSnapshots(t *testing.T, e Engine) {
	db := opened(t, e)
	const keys = 50
	write := func(ctx context.Context, n int) error {
		var txn kv.Txn
		for k := range keys {
			txn.Then = append(txn.Then, kv.Op{Key: fmt.Sprintf("s/%02d", k), Value: fmt.Append(nil, n)})
		}
		_, err := db.Commit(ctx, txn)
		return err
	}
	if err := write(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	defer writing.Wait()
	defer cancel()
	writing.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			if err := write(ctx, n); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	for range 50 {
		values, n, rev, from := map[string]bool{}, 0, int64(0), "s/"
		for more := true; more; {
			answer, err := db.Range(t.Context(), kv.Range{Key: from, End: "s0", Rev: rev, Limit: 7}, func(k kv.KeyValue) bool {
				values[string(k.Value)], from, n = true, kv.After(k.Key), n+1
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
			if more = answer.More; rev == 0 {
				rev = answer.Rev
			}
		}
		if len(values) != 1 || n != keys {
			t.Fatalf("at %d there are %d keys with the values %v", rev, n, values)
		}
	}
}

// testReopening closes the database and opens it again.
func testReopening(t *testing.T, e Engine) {
	db := e.Open(t)
	rev := put(t, db, "a", "1")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = opened(t, e)
	if got, _, err := value(t.Context(), db, "a", rev); got != "1" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if next := put(t, db, "b", "1"); next <= rev {
		t.Errorf("revision %d comes after %d", next, rev)
	}
	if got := watched(t, db, kv.Watch{Key: "a", From: rev, Until: rev}); !strings.Contains(got, "a=1(") {
		t.Errorf("its history: %s", got)
	}
}

// testContexts calls everything with a context that has ended.
func testContexts(t *testing.T, e Engine) {
	db := opened(t, e)
	rev := put(t, db, "a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, committed := db.Commit(ctx, kv.Txn{Then: []kv.Op{{Key: "a"}}})
	_, ranged := db.Range(ctx, kv.Range{Key: "a"}, func(kv.KeyValue) bool { return true })
	watched := db.Watch(ctx, kv.Watch{Key: "a", From: rev + 100}, func([]kv.Event, int64) error { return nil })
	for name, err := range map[string]error{"commit": committed, "range": ranged, "watch": watched, "ping": db.Ping(ctx)} {
		if err == nil {
			t.Errorf("%s did not notice that nobody waits", name)
		}
	}
}
