package past_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
	"github.com/kanzen-io/kanzen/internal/store/past"
)

const prefix = "/registry/"

// log is a log whose history is gone but for the newest revisions: what a past answers must be its own. The memory log below has all of it.
type log struct {
	*memory.DB
	oldest atomic.Int64
	asked  chan chan struct{} // nil: Head answers at once; otherwise once what it sends here is closed
	single bool               // each revision is delivered by itself, as etcd does
	stale  atomic.Int64       // what is read now is what was so many revisions before
	told   atomic.Int64       // the newest revision whose delivery has ended
}

func (l *log) Head(ctx context.Context) (int64, error) {
	if l.asked != nil {
		answer := make(chan struct{})
		l.asked <- answer
		<-answer
	}
	return l.DB.Head(ctx)
}

func (l *log) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	if r.Rev != 0 && r.Rev < l.oldest.Load() {
		return kv.Answer{}, kv.ErrCompacted
	}
	if back := l.stale.Load(); r.Rev == 0 && back > 0 {
		head, err := l.DB.Head(ctx)
		if err != nil {
			return kv.Answer{}, err
		}
		r.Rev = head - back
		answer, err := l.DB.Range(ctx, r, yield)
		answer.Rev = r.Rev
		return answer, err
	}
	return l.DB.Range(ctx, r, yield)
}

func (l *log) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error {
	if w.From < l.oldest.Load() {
		return kv.ErrCompacted
	}
	return l.DB.Watch(ctx, w, func(events []kv.Event, rev int64) error {
		for l.single && len(events) > 0 {
			n := 1
			for n < len(events) && events[n].ModRevision == events[0].ModRevision {
				n++
			}
			if err := deliver(events[:n:n], events[0].ModRevision); err != nil {
				return err
			}
			l.told.Store(events[0].ModRevision)
			events = events[n:]
		}
		return deliver(events, rev)
	})
}

// followed is a past that follows a log.
type followed struct {
	*past.Past
	t     testing.TB
	log   *log
	clock *clocktesting.FakeClock
	files vfs.FS
	dir   string
	bytes int64
	ages  map[string]time.Duration
	near  bool // the log
	// recent is how many bytes of values are in memory.
	recent int
	single bool // the log delivers each revision by itself
	stop   func()
}

func follow(t testing.TB, bytes int64) *followed { return followIn(t, vfs.NewMem(), "past", bytes) }

func followIn(t testing.TB, files vfs.FS, dir string, bytes int64) *followed {
	f := &followed{t: t, files: files, dir: dir, bytes: bytes}
	f.begin()
	return f
}

// begin makes a log, and follows it until the test ends.
func (f *followed) begin() {
	f.clock = clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	f.log, f.ages = &log{DB: memory.New(f.clock), single: f.single}, map[string]time.Duration{}
	f.open()
	f.t.Cleanup(func() { f.stop() })
}

func (f *followed) open() {
	p := past.New(past.Config{Dir: f.dir, Log: f.log, Near: f.near, Recent: f.recent, Prefix: prefix, Bytes: f.bytes, Clock: f.clock, FS: f.files, Logger: slog.Default(), Age: func(kind string) time.Duration {
		if age, ok := f.ages[kind]; ok {
			return age
		}
		return 24 * time.Hour
	}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	var maintaining sync.WaitGroup
	maintaining.Go(func() { p.Maintain(ctx) })
	f.Past = p
	f.stop = func() {
		cancel()
		err := <-ended
		maintaining.Wait()
		if err := errors.Join(err, p.Close()); err != nil {
			f.t.Error(err)
		}
	}
}

// reached waits until everything is recorded, and lets the log forget what was before.
func (f *followed) reached() int64 {
	f.t.Helper()
	head, err := f.log.Head(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.Reach(f.t.Context(), head); err != nil {
		f.t.Fatal(err)
	}
	f.log.oldest.Store(head)
	return head
}

// list is a range as of a revision, in words.
func list(t testing.TB, db interface {
	Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error)
}, r kv.Range) string {
	t.Helper()
	var out []string
	a, err := db.Range(t.Context(), r, func(k kv.KeyValue) bool {
		out = append(out, fmt.Sprintf("%s@%d=%s", k.Key, k.ModRevision, k.Value))
		return true
	})
	if err != nil {
		out = append(out, err.Error())
	}
	if r.End != "" && !r.CountOnly {
		out = append(out, fmt.Sprint("more ", a.More))
	}
	if r.CountOnly {
		out = append(out, fmt.Sprint("count ", a.Count))
	}
	return strings.Join(out, "\n")
}

// events are those of a watch, in words.
func events(t testing.TB, db interface {
	Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error
}, w kv.Watch) string {
	t.Helper()
	var out []string
	err := db.Watch(t.Context(), w, func(events []kv.Event, _ int64) error {
		slices.SortFunc(events, func(a, b kv.Event) int {
			return cmp.Or(cmp.Compare(a.ModRevision, b.ModRevision), bytes.Compare(a.Key, b.Key))
		})
		for _, e := range events {
			out = append(out, fmt.Sprintf("%s@%d=%s (%t, %t) before %d %s", e.Key, e.ModRevision, e.Value, e.Deleted, e.Created(), e.Prev.ModRevision, e.Prev.Value))
		}
		return nil
	})
	if err != nil {
		out = append(out, err.Error())
	}
	return strings.Join(out, "\n")
}

var kinds = []string{"pods/", "services/specs/", "example.com/widgets/", "nodes/"}

// randomly writes some keys of some kinds.
func (f *followed) randomly(r *rand.Rand) {
	ops := map[string]kv.Op{}
	for range 1 + r.IntN(3) {
		kind := kinds[r.IntN(3)]
		if r.IntN(20) == 0 {
			kind = kinds[3]
		}
		op := kv.Op{Key: fmt.Sprintf("%s%sns%d/o%d", prefix, kind, r.IntN(3), r.IntN(12)), Delete: r.IntN(4) == 0}
		if !op.Delete {
			op.Value = fmt.Appendf(nil, `{"kind":%q,"padding":%q,"n":%d,"more":%q,"m":%d}`, kind, strings.Repeat("abc ", r.IntN(60)), r.IntN(3), strings.Repeat("xyz ", 60), r.IntN(1000))
		}
		ops[op.Key] = op
	}
	txn := kv.Txn{}
	for _, op := range ops {
		txn.Then = append(txn.Then, op)
	}
	if _, err := f.log.Commit(f.t.Context(), txn); err != nil {
		f.t.Fatal(err)
	}
}

// TestAsTheLog asks for ranges and events of all revisions that are kept, and compares with a log that has forgotten nothing: while the past
// is dropped, and closed and opened again.
func TestAsTheLog(t *testing.T) {
	seeds := uint64(4)
	if testing.Short() { // the race detector makes each twelve times slower, and in one all goroutines meet
		seeds = 1
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 7))
		f := &followed{t: t, files: vfs.NewMem(), dir: "past", bytes: 1 << 20, near: seed%2 == 0, recent: []int{5000, 5000, 0}[seed%3]}
		f.begin()
		f.ages["pods/"], f.ages["nodes/"] = 4*time.Hour, 8*time.Hour
		f.reached()
		asked := 0
		for range 30 {
			for range r.IntN(40) {
				f.randomly(r)
				f.clock.Step(time.Duration(r.IntN(200)) * time.Second)
			}
			head := f.reached()
			if r.IntN(10) == 0 {
				f.stop()
				f.open()
			}
			f.clock.Step(time.Minute) // what is old is dropped
			for range 20 {
				kind := kinds[r.IntN(len(kinds))]
				since := f.Since(kind)
				rev := since + r.Int64N(head-since+1)
				q := kv.Range{Key: prefix + kind, End: kv.PrefixEnd(prefix + kind), Rev: rev, Limit: r.Int64N(4) * 3, CountOnly: r.IntN(8) == 0}
				switch r.IntN(4) {
				case 0:
					q.Key, q.End = fmt.Sprintf("%sns%d/o%d", q.Key, r.IntN(3), r.IntN(12)), ""
				case 1:
					q.Key += fmt.Sprintf("ns1/o%d\x00", r.IntN(12))
				}
				if q.CountOnly {
					q.Limit = 0
				}
				if got, want := list(t, f, q), list(t, f.log.DB, q); got != want {
					if f.Since(kind) > rev {
						continue // it was dropped meanwhile
					}
					t.Fatalf("seed %d: %+v of %d is\n%s\nand not\n%s", seed, q, head, got, want)
				}
				asked++
				w := kv.Watch{Key: prefix + kind, Prefix: true, From: rev + 1, Until: head}
				w.Prev = true
				if rev == head {
					continue
				}
				if got, want := events(t, f, w), events(t, f.log.DB, w); got != want && f.Since(kind) <= rev {
					t.Fatalf("seed %d: %+v is\n%s\nand not\n%s", seed, w, got, want)
				}
			}
		}
		if asked < 150 || f.Since("pods/") < 10 {
			t.Errorf("only %d questions, and history since %d", asked, f.Since("pods/"))
		}
		f.stop()
		f.stop = func() {}
	}
}

func (f *followed) put(key, value string) int64 {
	f.t.Helper()
	done, err := f.log.Commit(f.t.Context(), kv.Txn{Then: []kv.Op{{Key: prefix + key, Value: []byte(value)}}})
	if err != nil {
		f.t.Fatal(err)
	}
	return done.Rev
}

// revisions are those of a key, in words.
func (f *followed) revisions(key string, all bool) (out []string) {
	f.t.Helper()
	_, err := f.Revisions(f.t.Context(), key, all, f.reached(), func(r *store.Revision) bool {
		out = append(out, fmt.Sprintf("%s %s→%s by %s", r.Key, r.Prev, r.Now, r.Author.User))
		if a := r.Author; len(a.UserAgent) > 256 || a.User != "" && a.Request != "r1" {
			f.t.Errorf("the author is %+v", a)
		}
		return true
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// TestForget has nothing of what a key was stay anywhere, and what it is answered as before.
func TestForget(t *testing.T) {
	f := follow(t, 1<<20)
	f.reached()
	begun := f.put("pods/a/x", "secret-one")
	f.Wrote(begun, store.Author{User: "ann", UserAgent: strings.Repeat("a\x00", 1<<20), Request: "r1"})
	f.clock.Step(2 * time.Hour) // the next change is in another segment
	f.put("pods/a/x", "secret-two")
	f.put("pods/a/y", "other")
	last := f.put("pods/a/x", "now")
	if got := strings.Join(f.revisions("pods/a/", true), "; "); got != "pods/a/x secret-two→now by ; pods/a/y →other by ; pods/a/x secret-one→secret-two by ; pods/a/x →secret-one by ann" {
		t.Fatal(got)
	}
	for range 2 { // also when it was closed and opened
		f.stop()
		f.open()
		f.reached()
		if got := len(f.revisions("pods/a/x", false)); got != 3 {
			t.Error(got)
		}
	}
	if found, err := f.Forget(t.Context(), "pods/a/x"); !found || err != nil {
		t.Fatal(found, err)
	}
	if found, err := f.Forget(t.Context(), "pods/a/z"); found || err != nil {
		t.Fatal(found, err)
	}
	everything := kv.Range{Key: prefix + "pods/", End: prefix + "pods0"}
	for rev := begun; rev <= last; rev++ {
		if everything.Rev = rev; strings.Contains(list(t, f, everything), "secret") {
			t.Errorf("revision %d: %s", rev, list(t, f, everything))
		}
	}
	if got, want := list(t, f, everything), list(t, f.log.DB, everything); got != want {
		t.Errorf("now there is %s, not %s", got, want)
	}
	if got := strings.Join(f.revisions("pods/a/", true), "; "); got != "pods/a/x →now by ; pods/a/y →other by " {
		t.Error(got)
	}
	if got := events(t, f, kv.Watch{Key: prefix + "pods/", Prefix: true, From: begun, Until: last}); strings.Contains(got, "secret") {
		t.Error(got)
	}
	f.put("pods/a/x", "later")
	if got := strings.Join(f.revisions("pods/a/x", false), "; "); got != "pods/a/x now→later by ; pods/a/x →now by " {
		t.Error(got)
	}
}

// TestForgetMeanwhile forgets a key that changes after it was looked at: what comes next must not refer to what was dropped.
func TestForgetMeanwhile(t *testing.T) {
	f := &followed{t: t, files: vfs.NewMem(), dir: "past", bytes: 1 << 20, near: true, recent: 1}
	f.begin()
	f.reached()
	text := strings.Repeat("the same ", 30)
	f.put("pods/a/x", text+"1")
	f.put("pods/a/x", text+"2")
	f.put("pods/a/x", text+"3")
	f.put("pods/a/y", text) // x is not in memory any more
	f.reached()
	f.put("pods/a/x", text+"4")
	text = strings.Repeat("another, ", 30)
	f.put("pods/a/x", text+"5")
	f.put("pods/a/y", text+"1")
	f.reached()
	f.log.stale.Store(2)
	if found, err := f.Forget(t.Context(), "pods/a/x"); !found || err != nil {
		t.Fatal(found, err)
	}
	f.log.stale.Store(0)
	f.put("pods/a/y", text+"2")
	rev := f.put("pods/a/x", text+"6")
	f.put("pods/a/x", text+"7")
	f.reached()
	q := kv.Range{Key: prefix + "pods/a/x", Rev: rev}
	if got, want := list(t, f, q), list(t, f.log.DB, q); got != want {
		t.Errorf("it was %s, not %s", got, want)
	}
}

// TestBeginsAnew has a history end where the log cannot be followed: a gap, or another log.
func TestBeginsAnew(t *testing.T) {
	for name, change := range map[string]func(f *followed){
		"gap": func(f *followed) {
			f.put("pods/a/x", "two")
			f.put("pods/a/x", "three")
			head, _ := f.log.Head(t.Context())
			f.log.oldest.Store(head + 1)
		},
		"older log": func(f *followed) { f.log = &log{DB: memory.New(f.clock)} },
		"other log": func(f *followed) {
			f.log = &log{DB: memory.New(f.clock)}
			for n := range 20 {
				f.put("pods/a/x", fmt.Sprint("other ", n))
			}
		},
	} {
		f := follow(t, 1<<20)
		f.reached()
		f.put("pods/a/w", "begun")
		was := f.put("pods/a/x", "one")
		f.reached()
		f.stop()
		change(f)
		f.open()
		head := f.reached()
		if since := f.Since("pods/"); since != head {
			t.Errorf("%s: the history is since %d, of %d", name, since, head)
		}
		_, err := f.Range(t.Context(), kv.Range{Key: prefix + "pods/", End: prefix + "pods0", Rev: was}, func(kv.KeyValue) bool { return true })
		if name != "older log" && !errors.Is(err, kv.ErrCompacted) {
			t.Errorf("%s: %v", name, err)
		}
		f.put("pods/a/x", "after")
		if got := len(f.revisions("pods/a/x", false)); got != 1 {
			t.Errorf("%s: %d revisions after it", name, got)
		}
	}
}

// Until it is known whether the log is the one that was followed, what was found is no answer.
func TestFoundIsJudgedFirst(t *testing.T) {
	f := follow(t, 1<<20)
	f.put("pods/a/x", "one")
	rev := f.reached()
	f.stop()
	f.log.asked = make(chan chan struct{})
	f.open()
	answer := <-f.log.asked
	if got := f.Reached(); got != 0 {
		t.Errorf("%d is reached", got)
	}
	close(answer)
	if err := f.Reach(t.Context(), rev); err != nil {
		t.Error(err)
	}
}

// TestAskedTimes asks what there was at times, and for what is no time.
func TestAskedTimes(t *testing.T) {
	f := follow(t, 1<<20)
	begun := f.reached()
	for range 20 {
		at := f.clock.Now()
		rev := f.put("pods/a/x", at.String())
		f.reached()
		f.clock.Step(300 * time.Millisecond)
		for text, want := range map[string]int64{at.Format(time.RFC3339Nano): rev, "300ms": rev, "0s": rev, "301ms": rev - 1, fmt.Sprint(rev): rev} {
			if got, err := f.Asked(text); want > begun && (got != want || err != nil) {
				t.Errorf("%s: %d, %v, want %d", text, got, err, want)
			}
		}
	}
	for _, text := range []string{"", "x", "-2h", "2026-01-01"} {
		var form *store.MomentError
		if _, err := f.Asked(text); !errors.As(err, &form) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := f.Asked("3h"); !errors.Is(err, kv.ErrCompacted) {
		t.Error(err)
	}
}

// TestKinds keeps no changes of kinds that are left out, and those of others for their time.
func TestKinds(t *testing.T) {
	f := follow(t, 1<<20)
	f.ages["leases/"], f.ages["nodes/"] = 0, time.Hour
	f.reached()
	for _, kind := range []string{"leases/", "nodes/", "pods/"} {
		f.put(kind+"a", "one")
		f.put(kind+"a", "two")
	}
	if _, err := f.Revisions(t.Context(), "leases/a", false, f.reached(), nil); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("leases: %v", err)
	}
	f.clock.Step(2 * time.Hour)
	f.put("pods/a", "three")
	head := f.reached()
	for !f.clock.HasWaiters() { // what is too old is dropped beside
		runtime.Gosched()
	}
	f.clock.Step(time.Minute)
	for f.Since("nodes/") == f.Since("pods/") {
		runtime.Gosched()
	}
	if got := f.revisions("nodes/a", false); len(got) != 0 {
		t.Errorf("nodes: %q", got)
	}
	if got := f.revisions("pods/a", false); len(got) != 3 {
		t.Errorf("pods: %q", got)
	}
	q := kv.Range{Key: prefix + "nodes/", End: prefix + "nodes0", Rev: head}
	if got, want := list(t, f, q), list(t, f.log.DB, q); got != want {
		t.Errorf("nodes are %s, not %s", got, want)
	}
}

// BenchmarkRevision reads an object of 5 KB at one of its 1,000 revisions.
func BenchmarkRevision(b *testing.B) {
	f := follow(b, 64<<20)
	f.reached()
	padding := ""
	for n := range 100 {
		padding += fmt.Sprintf(`{"type":"Condition%d","lastTransitionTime":"%d"}`, n, n*n*7919)
	}
	var revs []int64
	for n := range 1000 {
		revs = append(revs, f.put("pods/a/x", fmt.Sprintf(`{"time":"%d",%s,"again":%d}`, n, padding, n*31)))
		f.clock.Step(10 * time.Second)
	}
	f.reached()
	n := 0
	for b.Loop() {
		n++
		rev := revs[n*7919%len(revs)]
		found := false
		if _, err := f.Range(b.Context(), kv.Range{Key: prefix + "pods/a/x", Rev: rev}, func(k kv.KeyValue) bool { found = k.ModRevision == rev; return true }); err != nil || !found {
			b.Fatal(found, err)
		}
	}
}

// TestOneByOne is told of each revision by itself, while nobody asks and no time passes. The log must not wait for each to be recorded: what
// comes faster than that would be kept in memory by who delivers it, without a bound.
func TestOneByOne(t *testing.T) {
	f := &followed{t: t, files: vfs.NewMem(), dir: "past", bytes: 64 << 20, single: true}
	f.begin()
	f.reached()
	for n := range 100 {
		f.put("pods/a/x", fmt.Sprint(n))
	}
	head, err := f.log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for f.log.told.Load() < head {
		runtime.Gosched()
	}
	if got := f.revisions("pods/a/x", false); f.reached() != head || len(got) != 100 {
		t.Errorf("%d revisions", len(got))
	}
}

// TestMuch is told of more than may wait: it is recorded at once, in several batches.
func TestMuch(t *testing.T) {
	f := &followed{t: t, files: vfs.NewMem(), dir: "past", bytes: 64 << 20, single: true}
	f.begin()
	f.reached()
	rev, rounds := int64(0), 20
	for n := range rounds {
		rev = f.put("pods/a/x", strings.Repeat(string(rune('a'+n)), 1<<20))
	}
	for f.log.told.Load() < rev-4 {
		runtime.Gosched()
	}
	for f.Reached() < rev-8 {
		runtime.Gosched()
	}
	if f.reached() != rev || len(f.revisions("pods/a/x", false)) != rounds {
		t.Errorf("%d of %d revisions", len(f.revisions("pods/a/x", false)), rounds)
	}
}

// TestInTurn changes keys in turn, of more bytes than are kept in memory: what is written down of a change is what it changed.
func TestInTurn(t *testing.T) {
	for _, near := range []bool{false, true} {
		const keys, rounds, size = 50, 20, 2000
		f := &followed{t: t, files: vfs.NewMem(), dir: "past", bytes: 64 << 20, near: near, recent: keys * size / 4}
		f.begin()
		f.reached()
		for n := range rounds * keys {
			f.put(fmt.Sprint("pods/a/x", n%keys), fmt.Sprintf(`{"n":%d,"padding":%q}`, n, strings.Repeat(fmt.Sprint(n%keys), size)[:size]))
		}
		f.reached()
		if is, most := f.Size(), int64(2*keys*size+rounds*keys*250); is > most {
			t.Errorf("near %v: %d changes of objects of %d bytes take %d bytes, more than %d", near, rounds*keys, size, is, most)
		}
	}
}

var size = flag.Int64("past.size", 64<<20, "bytes of the past that BenchmarkOpen opens")

// BenchmarkOpen opens a past on the disk, whose values cannot be compressed.
func BenchmarkOpen(b *testing.B) {
	f := followIn(b, vfs.Default, b.TempDir(), *size)
	f.reached()
	random := rand.NewChaCha8([32]byte{})
	value := make([]byte, 64<<10)
	for n := range *size / int64(len(value)) {
		_, _ = random.Read(value) // never fails
		f.put(fmt.Sprintf("pods/a/x%d", n%100), string(value))
		f.clock.Step(time.Second)
		if n%100 == 99 {
			if err := f.log.Compact(b.Context(), f.reached()); err != nil {
				b.Fatal(err)
			}
		}
	}
	f.reached()
	for b.Loop() {
		b.StopTimer()
		f.stop()
		b.StartTimer()
		f.open()
		f.reached()
	}
}

// TestDamage opens pasts one of whose files is cut off, or has other bits. What they answer is right, or an error in a line.
func TestDamage(t *testing.T) {
	f := follow(t, 64<<20)
	f.reached()
	var revs []int64
	for n := range 60 {
		revs = append(revs, f.put(fmt.Sprint("pods/a/x", n%7), strings.Repeat(fmt.Sprint("value ", n), 50)))
		f.clock.Step(time.Minute)
		if f.reached(); n%20 == 0 {
			if err := f.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.stop()
	f.stop = func() {}
	names, err := f.files.List(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	random := rand.New(rand.NewPCG(1, 2))
	failed, times := 0, 120
	if testing.Short() {
		times = 30
	}
	for n := range times {
		files := vfs.NewMem()
		if _, err := vfs.Clone(f.files, files, f.dir, f.dir); err != nil {
			t.Fatal(err)
		}
		name := names[n%len(names)]
		damage(t, files, files.PathJoin(f.dir, name), random)
		for _, err := range askDamaged(t, f, files, revs) {
			failed++
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "stack trace") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if failed == 0 {
		t.Error("no damage was found")
	}
}

// damage cuts a file off, or flips bits in it.
func damage(t *testing.T, files vfs.FS, path string, random *rand.Rand) {
	t.Helper()
	from, err := files.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(from)
	if err != nil || from.Close() != nil {
		t.Fatal(err)
	}
	if len(content) > 0 && random.IntN(3) == 0 {
		content = content[:random.IntN(len(content))]
	} else if len(content) > 0 {
		for range 1 + random.IntN(4) {
			content[random.IntN(len(content))] ^= 1 << random.IntN(8)
		}
	}
	to, err := files.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := to.Write(content); err != nil || to.Close() != nil {
		t.Fatal(err)
	}
}

// askDamaged opens a past and asks for revisions. It returns the errors.
func askDamaged(t *testing.T, f *followed, files vfs.FS, revs []int64) (errs []error) {
	t.Helper()
	p := past.New(past.Config{Dir: f.dir, Log: f.log, Near: f.near, Recent: f.recent, Prefix: prefix, Bytes: f.bytes, Clock: f.clock, FS: files, Logger: slog.New(slog.DiscardHandler), Age: func(string) time.Duration { return 24 * time.Hour }})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	for _, rev := range revs {
		r := kv.Range{Key: prefix + "pods/", End: prefix + "pods0", Rev: rev}
		want, got := map[string]int64{}, map[string]int64{}
		if _, err := f.log.DB.Range(t.Context(), r, func(k kv.KeyValue) bool { want[string(k.Key)+string(k.Value)] = k.ModRevision; return true }); err != nil {
			t.Fatal(err)
		}
		_, err := p.Range(t.Context(), r, func(k kv.KeyValue) bool { got[string(k.Key)+string(k.Value)] = k.ModRevision; return true })
		switch {
		case err != nil:
			errs = append(errs, err)
		case !maps.Equal(got, want):
			t.Errorf("revision %d: %v, want %v", rev, got, want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		errs = append(errs, err)
	}
	if err := p.Close(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// BenchmarkRecord records changes of pods of 6 KB: of their statuses, which come in turn, those of few pods are remembered, those of many are
// not; and of pods that are created, get a status in three changes, and are deleted.
func BenchmarkRecord(b *testing.B) {
	var spec strings.Builder
	random := rand.New(rand.NewPCG(1, 2))
	for spec.Len() < 4000 {
		fmt.Fprintf(&spec, `{"name":"container-%d","image":"registry.example.com/team/image-%x:v%d"}`, random.IntN(1000), random.Uint64(), random.IntN(100))
	}
	pod := func(key, change, conditions int) string {
		text := fmt.Sprintf(`{"uid":"%x","resourceVersion":"%d",%s,"conditions":[`, uint64(key+1)*0x9e3779b97f4a7c15, change, spec.String())
		for c := range conditions {
			text += fmt.Sprintf(`{"type":"Condition%d","message":"is so because of %x","lastHeartbeatTime":"%d","containerID":"%x"},`, c, uint64(key*7+c)*0x9e3779b97f4a7c15, change*7919, uint64(key*11+c)*0xbf58476d1ce4e5b9)
		}
		return text
	}
	const parallel = 1000
	lives := func(n int) (key int, value string) {
		age := n / parallel % 5
		if key = n/(5*parallel)*parallel + n%parallel; age == 4 {
			return key, ""
		}
		return key, pod(key, n, 5*age)
	}
	inTurn := func(pods int) func(n int) (int, string) {
		return func(n int) (int, string) { return n % pods, pod(n%pods, n, 15) }
	}
	for _, is := range []struct {
		name   string
		change func(n int) (key int, value string)
		first  int
		near   bool
	}{
		{"300pods", inTurn(300), 600, true}, {"3000pods", inTurn(3000), 6000, true}, {"3000pods/far", inTurn(3000), 6000, false}, {"lives", lives, 5 * parallel, true},
	} {
		b.Run(is.name, func(b *testing.B) {
			f := &followed{t: b, near: is.near, files: vfs.Default, dir: b.TempDir(), bytes: 256 << 20}
			f.begin()
			f.reached()
			n := 0
			change := func(times int) {
				for range times {
					key, value := is.change(n)
					op := kv.Op{Key: fmt.Sprint(prefix, "pods/a/x", key), Value: []byte(value), Delete: value == ""}
					if _, err := f.log.Commit(b.Context(), kv.Txn{Then: []kv.Op{op}}); err != nil {
						b.Fatal(err)
					}
					if n++; n%1000 == 0 {
						f.reached()
					}
				}
				f.reached()
			}
			change(is.first)
			b.ReportAllocs()
			b.ResetTimer()
			began := processorTime()
			change(b.N)
			b.ReportMetric(float64(processorTime()-began)/1e3/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(sizeOf(b, f.dir))/float64(n), "disk-B/op")
		})
	}
}

// sizeOf is how many bytes the files below a directory have.
func sizeOf(b *testing.B, dir string) (n int64) {
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // a compaction has removed it
			return nil
		}
		n += info.Size()
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func processorTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

// A kind of which everything was dropped begins again with a segment of its own, which knows no key, also none that is remembered.
func TestAfterEverythingWasDropped(t *testing.T) {
	for _, recent := range []int{1 << 20, 1} {
		f := &followed{t: t, files: vfs.NewMem(), dir: "past", bytes: 1 << 20, near: true, recent: recent}
		f.begin()
		put := func(name string, n int) int64 {
			value := fmt.Sprintf(`{"padding":%q,"n":%d}`, strings.Repeat("abc ", 200), n)
			if _, err := f.log.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: prefix + "pods/a/" + name, Value: []byte(value)}}}); err != nil {
				t.Fatal(err)
			}
			return f.reached()
		}
		put("x", 1)
		put("x", 2)
		put("y", 1) // with recent 1, x is not remembered
		f.clock.Step(25 * time.Hour)
		for f.Size() > 0 {
			f.clock.Step(time.Minute)
			time.Sleep(time.Millisecond)
		}
		rev := put("x", 3)
		for _, at := range []int64{rev - 1, rev} {
			r := kv.Range{Key: prefix + "pods/a/x", Rev: at}
			if is, want := list(t, f, r), list(t, f.log.DB, r); is != want {
				t.Errorf("recent %d, at %d: %s\nwant %s", recent, at, is, want)
			}
		}
		w := kv.Watch{Key: prefix + "pods/", Prefix: true, From: rev, Until: rev, Prev: true}
		if is, want := events(t, f, w), events(t, f.log.DB, w); is != want {
			t.Errorf("recent %d: %s\nwant %s", recent, is, want)
		}
	}
}
