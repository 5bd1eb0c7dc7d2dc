package past_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
	"github.com/kanzen-io/kanzen/internal/store/past"
)

const prefix = "/registry/"

// log is a log whose history is gone but for the newest revisions: what a past answers must be its own. The memory log below has all of it.
type log struct {
	*memory.DB
	oldest atomic.Int64
}

func (l *log) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	if r.Rev != 0 && r.Rev < l.oldest.Load() {
		return kv.Answer{}, kv.ErrCompacted
	}
	return l.DB.Range(ctx, r, yield)
}

func (l *log) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error {
	if w.From < l.oldest.Load() {
		return kv.ErrCompacted
	}
	return l.DB.Watch(ctx, w, deliver)
}

// followed is a past that follows a log.
type followed struct {
	*past.Past
	t     *testing.T
	log   *log
	clock *clocktesting.FakeClock
	files vfs.FS
	bytes int64
	ages  map[string]time.Duration
	stop  func()
}

func follow(t *testing.T, bytes int64) *followed {
	c := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	f := &followed{t: t, log: &log{DB: memory.New(c)}, clock: c, files: vfs.NewMem(), bytes: bytes, ages: map[string]time.Duration{}}
	f.open()
	t.Cleanup(func() { f.stop() })
	return f
}

func (f *followed) open() {
	p := past.New(past.Config{Dir: "past", Log: f.log, Prefix: prefix, Bytes: f.bytes, Clock: f.clock, FS: f.files, Logger: slog.Default(), Age: func(kind string) time.Duration {
		if age, ok := f.ages[kind]; ok {
			return age
		}
		return 24 * time.Hour
	}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	f.Past = p
	f.stop = func() {
		cancel()
		if err := errors.Join(<-ended, p.Close()); err != nil {
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
func list(t *testing.T, db interface {
	Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error)
}, r kv.Range) string {
	t.Helper()
	var out []string
	a, err := db.Range(t.Context(), r, func(k kv.KeyValue) bool {
		out = append(out, fmt.Sprintf("%s@%d=%s", k.Key, k.ModRevision, k.Value))
		return true
	})
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
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
func events(t *testing.T, db interface {
	Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error
}, w kv.Watch) string {
	t.Helper()
	var out []string
	err := db.Watch(t.Context(), w, func(events []kv.Event, _ int64) error {
		slices.SortFunc(events, func(a, b kv.Event) int {
			return strings.Compare(fmt.Sprintf("%9d%s", a.ModRevision, a.Key), fmt.Sprintf("%9d%s", b.ModRevision, b.Key))
		})
		for _, e := range events {
			out = append(out, fmt.Sprintf("%s@%d=%s (%t, %t) before %d %s", e.Key, e.ModRevision, e.Value, e.Deleted, e.Created(), e.Prev.ModRevision, e.Prev.Value))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%+v: %v", w, err)
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
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 7))
		f := follow(t, 1<<20)
		f.reached()
		asked := 0
		for range 60 {
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
				if got, want := events(t, f, w), events(t, f.log.DB, w); got != want {
					t.Fatalf("seed %d: %+v is\n%s\nand not\n%s", seed, w, got, want)
				}
			}
		}
		if asked < 300 || f.Since("pods/") < 10 {
			t.Errorf("only %d questions, and history since %d", asked, f.Since("pods/"))
		}
		f.stop()
		f.stop = func() {}
	}
}
