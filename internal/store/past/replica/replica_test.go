package replica_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
	"github.com/kanzen-io/kanzen/internal/store/past"
	"github.com/kanzen-io/kanzen/internal/store/past/replica"
)

const prefix, replicaPrefix = "/registry/", "/kanzen/history/"

// cluster is a database, of which some servers keep the past, and what its keys were at each revision.
type cluster struct {
	*testing.T
	db     *memory.DB
	clock  *clocktesting.FakeClock
	random *rand.Rand
	bytes  int64
	was    map[int64]map[string]string
	newest int64
	copied int64 // newest when once was called
}

func newCluster(t *testing.T) *cluster {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	c := &cluster{T: t, db: memory.New(clock), clock: clock, random: rand.New(rand.NewPCG(1, 2)), bytes: 64 << 20, was: map[int64]map[string]string{}}
	c.write(kv.Op{Key: prefix + "pods/default/first", Value: []byte("first")})
	return c
}

// server keeps the past, with a disk of its own.
type server struct {
	*past.Past
	replica *replica.Replica
	stop    func()
}

func (c *cluster) server(name string, change ...func(*replica.Config)) *server {
	cfg := replica.Config{DB: c.db, Prefix: replicaPrefix, Kept: "all", Age: 24 * time.Hour, Bytes: c.bytes, Server: name, Clock: c.clock, Log: slog.Default()}
	for _, f := range change {
		f(&cfg)
	}
	s := &server{replica: replica.New(cfg)}
	s.Past = past.New(past.Config{Dir: "past", Log: c.db, Prefix: prefix, Bytes: 256 << 20, Clock: c.clock, FS: vfs.NewMem(), Restore: s.replica.Restore, Logger: slog.Default().With("server", name),
		Age: func(string) time.Duration { return 24 * time.Hour }})
	s.replica.Of(s.Past)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			c.Error(err)
		}
	})
	c.Cleanup(s.stop)
	c.reached(s)
	return s
}

// reached waits until a server has recorded everything.
func (c *cluster) reached(s *server) {
	c.Helper()
	head, err := c.db.Head(c.Context())
	if err := errors.Join(err, s.Reach(c.Context(), head)); err != nil {
		c.Fatal(err)
	}
}

// write carries out one transaction.
func (c *cluster) write(ops ...kv.Op) {
	c.Helper()
	done, err := c.db.Commit(c.Context(), kv.Txn{Then: ops})
	if err != nil {
		c.Fatal(err)
	}
	now := maps.Clone(c.was[c.newest])
	if now == nil {
		now = map[string]string{}
	}
	for _, op := range ops {
		if delete(now, op.Key); !op.Delete {
			now[op.Key] = string(op.Value)
		}
	}
	c.newest = done.Rev
	c.was[c.newest] = now
}

// writes makes random transactions.
func (c *cluster) writes(n int) {
	c.Helper()
	for range n {
		var ops []kv.Op
		for range 1 + c.random.IntN(2) {
			key := fmt.Sprintf("%s%s/default/%d", prefix, []string{"pods", "configmaps", "example.com/widgets"}[c.random.IntN(3)], c.random.IntN(8))
			if slices.ContainsFunc(ops, func(op kv.Op) bool { return op.Key == key }) {
				continue
			}
			_, there := c.was[c.newest][key]
			if there && c.random.IntN(4) == 0 {
				ops = append(ops, kv.Op{Key: key, Delete: true})
			} else {
				ops = append(ops, kv.Op{Key: key, Value: fmt.Appendf(nil, "value %d of %s%s", c.random.IntN(1000), key, strings.Repeat(" and more", c.random.IntN(9)))})
			}
		}
		c.write(ops...)
		c.clock.SetTime(c.clock.Now().Add(time.Second))
	}
}

// once lets a server share what it has.
func (c *cluster) once(s *server) {
	c.Helper()
	c.reached(s)
	if err := s.replica.Once(c.Context()); err != nil {
		c.Fatal(err)
	}
	c.copied = c.newest
}

// compact lets the log forget what is shared.
func (c *cluster) compact() {
	c.Helper()
	if err := c.db.Compact(c.Context(), c.copied); err != nil {
		c.Fatal(err)
	}
}

// knows asks a server what everything was at each revision from one on.
func (c *cluster) knows(s *server, since int64) {
	c.Helper()
	for rev := since; rev <= c.newest; rev++ {
		want := c.was[rev]
		if want == nil {
			continue // a revision of what is shared
		}
		got := map[string]string{}
		for _, kind := range []string{"pods/", "configmaps/", "example.com/widgets/"} {
			_, err := s.Range(c.Context(), kv.Range{Key: prefix + kind, End: kv.PrefixEnd(prefix + kind), Rev: rev}, func(k kv.KeyValue) bool {
				got[string(k.Key)] = string(k.Value)
				return true
			})
			if err != nil {
				c.Fatalf("%s at %d: %v", kind, rev, err)
			}
		}
		if !maps.Equal(got, want) {
			c.Fatalf("at %d: %v, not %v", rev, got, want)
		}
	}
}

// TestRestored: a server that begins without a past knows what others have shared, whoever did, and goes on with the log.
func TestRestored(t *testing.T) {
	c := newCluster(t)
	one := c.server("one")
	since := c.newest
	c.writes(5) // before anything is shared
	c.once(one)
	var with []*server
	for n := range 6 {
		c.writes(20)
		c.once(one)
		if n == 2 { // another server takes over from a writer that is gone
			two := c.server("two")
			one.stop()
			for range 6 {
				c.once(two)
				c.writes(3)
			}
			c.once(two)
			one = two
		}
		c.compact()
		c.writes(5)
		s := c.server(fmt.Sprint("new", n))
		c.reached(s)
		c.knows(s, since)
		with = append(with, s)
		c.once(s) // it is not its turn
	}
	for _, s := range with {
		c.reached(s)
		c.knows(s, since)
	}
}

// TestAuthorsAndTimes: who has made a change, and when, is shared with it.
func TestAuthorsAndTimes(t *testing.T) {
	c := newCluster(t)
	one := c.server("one")
	c.once(one)
	c.clock.SetTime(c.clock.Now().Add(time.Hour))
	c.write(kv.Op{Key: prefix + "pods/default/a", Value: []byte("1")})
	one.Wrote(c.newest, store.Author{User: "ann", Verb: "create"})
	rev, at := c.newest, c.clock.Now()
	c.reached(one)
	c.clock.SetTime(c.clock.Now().Add(time.Hour))
	c.write(kv.Op{Key: prefix + "pods/default/a", Value: []byte("2")})
	c.once(one)
	c.compact()
	two := c.server("two")
	c.reached(two)
	for ago, want := range map[string][2]int64{"61m": {1, rev - 1}, "59m": {rev, c.newest - 1}, "0s": {c.newest, c.newest + 1}} {
		if got, err := two.Asked(ago); err != nil || got < want[0] || got > want[1] {
			t.Errorf("%s ago: %d %v, not %d", ago, got, err, want)
		}
	}
	dated, _, err := two.After(t.Context(), rev-1, 1<<20)
	if err != nil || len(dated) != 2 || dated[0].Author.User != "ann" || !dated[0].At.Equal(at) || !dated[0].Created() || string(dated[1].Prev.Value) != "1" {
		t.Errorf("%+v %v", dated, err)
	}
}

// TestBounds: there is no more than is allowed, and what is dropped leaves no keys.
func TestBounds(t *testing.T) {
	c := newCluster(t)
	c.bytes = 1 << 20
	one := c.server("one")
	c.once(one)
	random := rand.NewChaCha8([32]byte{})
	noise := func() []byte {
		b := make([]byte, 100<<10)
		_, _ = random.Read(b) // never fails
		return b
	}
	for n := range 24 {
		c.write(kv.Op{Key: fmt.Sprint(prefix, "configmaps/default/", n%3), Value: noise()})
		c.once(one)
	}
	total, chunks := 0, 0
	all := c.keys(replicaPrefix)
	for key, value := range all {
		if strings.Contains(key, "chunk") {
			total, chunks = total+len(value), chunks+1
		}
	}
	if total > 1<<20+512<<10 || chunks < 2 || total < 512<<10 {
		t.Errorf("%d bytes in %d chunks", total, chunks)
	}
	c.compact()
	two := c.server("two")
	c.reached(two)
	since := two.Since("configmaps/")
	if since <= one.Since("configmaps/") || since == c.newest {
		t.Errorf("since %d", since)
	}
	c.knows(two, since)

	// One change that is larger than a key.
	var big []byte
	for len(big) < 1400<<10 {
		big = append(big, noise()...)
	}
	c.write(kv.Op{Key: prefix + "configmaps/default/big", Value: big})
	c.once(one)
	c.compact()
	three := c.server("three")
	c.reached(three)
	c.knows(three, c.newest-1)

	// What is too old goes.
	c.clock.SetTime(c.clock.Now().Add(25 * time.Hour))
	c.write(kv.Op{Key: prefix + "configmaps/default/big", Delete: true})
	c.once(one)
	c.once(one)
	if left := c.keys(replicaPrefix + "chunk/"); len(left) > 2 { // of one chunk
		t.Errorf("%d keys are left", len(left))
	}
}

// TestOtherKinds: a server that keeps other kinds begins anew once the writer is gone, and what that has written goes.
func TestOtherKinds(t *testing.T) {
	c := newCluster(t)
	other := func(s *replica.Config) { s.Kept = "other" }
	one, two := c.server("one"), c.server("two", other)
	since := c.newest
	c.once(one)
	for range 80 { // more chunks than one transaction deletes
		c.writes(1)
		c.once(one)
		c.clock.SetTime(c.clock.Now().Add(6 * time.Minute)) // the next chunk is another one
	}
	for range 6 {
		c.writes(3)
		c.once(two)
	}
	head := c.keys(replicaPrefix + "head")[replicaPrefix+"head"]
	if left := c.keys(replicaPrefix + "chunk/"); len(left) != strings.Count(head, `"parts"`) || !strings.Contains(head, `"kept":"other"`) {
		t.Errorf("%d chunks, the head is %s", len(left), head)
	}
	c.compact()
	three := c.server("three", other)
	c.reached(three)
	c.knows(three, since)
}

// TestLargeDeletions: what is deleted counts as what it was. A transaction of which nobody could read the copy is not copied.
func TestLargeDeletions(t *testing.T) {
	c := newCluster(t)
	one := c.server("one")
	c.once(one)
	const size = 600 << 10
	objects := 120
	if testing.Short() {
		objects = 20
	}
	key := func(n int) string { return fmt.Sprint(prefix, "configmaps/default/", n) }
	for n := range objects {
		c.write(kv.Op{Key: key(n), Value: bytes.Repeat([]byte{byte(n)}, size)})
	}
	c.once(one)
	before := c.newest
	for n := range 20 {
		c.write(kv.Op{Key: key(n), Delete: true})
	}
	c.reached(one)
	const most = 3 << 20
	changes, reached, err := one.After(t.Context(), before, most)
	if err != nil || len(changes) == 0 || len(changes) > most/size+1 || reached != changes[len(changes)-1].ModRevision {
		t.Errorf("%d changes up to %d, %v", len(changes), reached, err)
	}
	if testing.Short() {
		return // the rest writes 84 MB
	}
	c.once(one)
	var all []kv.Op
	for n := 20; n < objects; n++ {
		all = append(all, kv.Op{Key: key(n), Delete: true})
	}
	// All that is left is deleted at once: it is more than one chunk may have.
	for n := range 20 {
		c.write(kv.Op{Key: key(n), Value: bytes.Repeat([]byte{byte(n)}, size)})
		all = append(all, kv.Op{Key: key(n), Delete: true})
	}
	c.write(all...)
	c.reached(one)
	if _, _, err := one.After(t.Context(), c.newest-1, most); !errors.Is(err, kv.ErrTooLarge) {
		t.Error(err)
	}
	for range 3 {
		c.once(one)
	}
	c.writes(1) // the copy begins anew where the log is by then, which may have gone on with the copy itself
	since := c.newest
	c.writes(10)
	c.once(one)
	c.compact()
	two := c.server("two")
	c.reached(two)
	c.knows(two, since)
}

// TestDamagedHead: what nobody can read is dropped, and begun anew.
func TestDamagedHead(t *testing.T) {
	c := newCluster(t)
	one := c.server("one")
	c.once(one)
	c.writes(30)
	c.once(one)
	one.stop()
	if _, err := c.db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: replicaPrefix + "head", Value: []byte("damaged")}}}); err != nil {
		t.Fatal(err)
	}
	two := c.server("two")
	if left := c.keys(replicaPrefix + "chunk/"); len(left) == 0 {
		t.Fatal("there were no chunks")
	}
	c.once(two)
	c.writes(30)
	since := two.Since("pods/")
	c.once(two)
	if left := c.keys(replicaPrefix + "chunk/"); len(left) != 1 {
		t.Errorf("%d chunks", len(left))
	}
	c.compact()
	three := c.server("three")
	c.reached(three)
	c.knows(three, since)
}

func (c *cluster) keys(under string) map[string]string {
	out := map[string]string{}
	_, err := c.db.Range(c.Context(), kv.Range{Key: under, End: kv.PrefixEnd(under)}, func(k kv.KeyValue) bool {
		out[string(k.Key)] = string(k.Value)
		return true
	})
	if err != nil {
		c.Fatal(err)
	}
	return out
}

// TestNotTaken: what does not fit is not begun with.
func TestNotTaken(t *testing.T) {
	for name, spoil := range map[string]func(*cluster) func(*replica.Config){
		"something else is kept": func(*cluster) func(*replica.Config) { return func(s *replica.Config) { s.Kept = "pods" } },
		"the log does not go on": func(c *cluster) func(*replica.Config) {
			c.writes(10)
			c.copied = c.newest
			c.compact()
			return func(*replica.Config) {}
		},
		"a chunk is damaged": func(c *cluster) func(*replica.Config) {
			for key := range c.keys(replicaPrefix + "chunk/") {
				if _, err := c.db.Commit(c.Context(), kv.Txn{Then: []kv.Op{{Key: key, Value: []byte("damaged")}}}); err != nil {
					c.Fatal(err)
				}
			}
			head := c.keys(replicaPrefix + "head")[replicaPrefix+"head"]
			if _, err := c.db.Commit(c.Context(), kv.Txn{Then: []kv.Op{{Key: replicaPrefix + "head", Value: []byte(head)}}}); err != nil {
				c.Fatal(err)
			}
			return func(*replica.Config) {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			one := c.server("one")
			c.once(one)
			c.writes(30)
			c.once(one)
			c.compact()
			change := spoil(c)
			head, err := c.db.Head(t.Context())
			two := c.server("two", change)
			if err != nil || two.Since("pods/") < head {
				t.Errorf("since %d, the head is %d %v", two.Since("pods/"), head, err)
			}
			c.writes(5)
			c.reached(two)
			c.knows(two, max(two.Since("pods/"), c.newest-4))
		})
	}
}

// TestForget: what is forgotten on one server is in no chunk and on no server any more, and was never there before its last change.
func TestForget(t *testing.T) {
	c := newCluster(t)
	one, two := c.server("one"), c.server("two")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { one.replica.Run(ctx) })
	running.Go(func() { two.replica.Run(ctx) })
	c.once(one)
	const key = "secrets/default/a"
	for n := range 5 {
		c.write(kv.Op{Key: prefix + key, Value: fmt.Appendf(nil, "password %d", n)}, kv.Op{Key: prefix + "secrets/default/b", Value: fmt.Appendf(nil, "other %d", n)})
		c.writes(3)
	}
	c.once(one)
	c.reached(two)
	first := c.newest - 15
	if _, err := two.replica.Forget(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	c.compact()
	three := c.server("three")
	for name, s := range map[string]*server{"one": one, "two": two, "three": three} {
		c.reached(s)
		var values []string
		for end := time.Now().Add(30 * time.Second); ; {
			values = nil
			for rev := first; rev <= c.newest; rev++ {
				_, err := s.Range(t.Context(), kv.Range{Key: prefix + key, Rev: rev}, func(k kv.KeyValue) bool {
					values = append(values, string(k.Value))
					return true
				})
				if err != nil {
					t.Fatal(name, err)
				}
			}
			if values = slices.Compact(values); slices.Equal(values, []string{"password 4"}) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s knows %q", name, values)
			}
		}
		was := 0
		for rev := first; rev <= c.newest; rev++ {
			_, err := s.Range(t.Context(), kv.Range{Key: prefix + "secrets/default/b", Rev: rev}, func(kv.KeyValue) bool {
				was++
				return true
			})
			if err != nil {
				t.Fatal(name, err)
			}
		}
		if was < 14 {
			t.Errorf("%s knows another object at %d revisions", name, was)
		}
	}
	if left := c.keys(replicaPrefix + "forgotten/"); len(left) != 1 {
		t.Error(left)
	}
}

// sharing is a server that shares what is written with patch.
type sharing struct {
	*testing.B
	db     *memory.DB
	clock  *clocktesting.FakeClock
	past   *past.Past
	shared *replica.Replica
	n      int
}

func newSharing(b *testing.B) *sharing {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := &sharing{B: b, db: memory.New(clock), clock: clock}
	s.past, s.shared = s.server()
	return s
}

// server begins with what is shared, if there is something.
func (s *sharing) server() (*past.Past, *replica.Replica) {
	r := replica.New(replica.Config{DB: s.db, Prefix: replicaPrefix, Age: 24 * time.Hour, Bytes: 64 << 20, Server: "one", Clock: s.clock, Log: slog.Default()})
	p := past.New(past.Config{Dir: "past", Log: s.db, Prefix: prefix, Bytes: 256 << 20, Clock: s.clock, FS: vfs.NewMem(), Restore: r.Restore,
		Age: func(string) time.Duration { return 24 * time.Hour }})
	r.Of(p)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	s.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, p.Close()); err != nil {
			s.Error(err)
		}
	})
	s.reached(p)
	return p, r
}

func (s *sharing) reached(p *past.Past) {
	s.Helper()
	head, err := s.db.Head(s.Context())
	if err := errors.Join(err, p.Reach(s.Context(), head)); err != nil {
		s.Fatal(err)
	}
}

const pods, patches = 200, 1000

// patch changes pods of 5 KB.
func (s *sharing) patch() {
	s.Helper()
	for range patches {
		s.n++
		var text strings.Builder
		for line := range 120 {
			fmt.Fprintf(&text, "\"field%d\": \"value of pod %d %x\",", line, s.n%pods, line*(s.n%pods)*7919)
		}
		fmt.Fprintf(&text, `"n": %d`, s.n*7919)
		if _, err := s.db.Commit(s.Context(), kv.Txn{Then: []kv.Op{{Key: fmt.Sprint(prefix, "pods/default/web-", s.n%pods), Value: []byte(text.String())}}}); err != nil {
			s.Fatal(err)
		}
		s.clock.SetTime(s.clock.Now().Add(time.Millisecond))
	}
	s.reached(s.past)
}

func (s *sharing) once() {
	s.Helper()
	if err := s.shared.Once(s.Context()); err != nil {
		s.Fatal(err)
	}
	s.clock.SetTime(s.clock.Now().Add(30 * time.Second))
}

// BenchmarkOnce shares a thousand changes: with reading them from the past.
func BenchmarkOnce(b *testing.B) {
	s := newSharing(b)
	for b.Loop() {
		b.StopTimer()
		s.patch()
		b.StartTimer()
		s.once()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*patches), "µs/change")
}

// BenchmarkRestore begins with 60,000 changes, and BenchmarkForget takes a pod out of them.
func BenchmarkRestore(b *testing.B) {
	s := newSharing(b)
	s.fill()
	for b.Loop() {
		s.server()
	}
}

func BenchmarkForget(b *testing.B) {
	s := newSharing(b)
	s.fill()
	n := 0
	for b.Loop() {
		if _, err := s.shared.Forget(b.Context(), fmt.Sprint("pods/default/web-", n)); err != nil {
			b.Fatal(err)
		}
		n++
	}
}

func (s *sharing) fill() {
	s.Helper()
	s.once()
	for range 60 {
		s.patch()
		s.once()
	}
}
