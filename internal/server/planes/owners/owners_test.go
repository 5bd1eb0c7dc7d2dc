package owners

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// member is a server of the tests.
type member struct {
	*Owners
	changed chan types.UID
	stop    func()
}

// join starts a server on a log.
func join(t testing.TB, db store.DB, name string) *member {
	t.Helper()
	m := &member{changed: make(chan types.UID, 1000)}
	log := slog.New(slog.DiscardHandler)
	var err error
	m.Owners, err = New(Config{DB: db, Name: name, Changed: func(uid types.UID) { m.changed <- uid }, Joined: func() {}, Clock: clock.RealClock{},
		Guard: guard.New(log, clock.RealClock{}, func() {}), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	m.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(m.stop)
	return m
}

func logOf(t testing.TB) store.DB {
	db := memory.New(clock.RealClock{})
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// claim claims a plane and returns the name of its owner.
func (m *member) claim(t *testing.T, plane types.UID) (owner string, fence int64) {
	t.Helper()
	fence, elsewhere, err := m.Claim(t.Context(), plane)
	if err != nil {
		t.Fatal(err)
	}
	if elsewhere != nil {
		return elsewhere.Name, 0
	}
	return m.Name, fence
}

// write writes something of a plane.
func (m *member) write(t *testing.T, db store.DB, fence int64) error {
	t.Helper()
	lost := make(chan struct{})
	_, err := m.Fence(db, "p", fence, func() { close(lost) }).Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "/kanzen/planes/p/x", Value: []byte(m.Name)}}})
	if err != nil {
		<-lost
	}
	return err
}

// A plane has one owner, until that gives it up or is gone; from then on nothing that it writes is taken.
func TestClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := logOf(t)
		a, b := join(t, db, "a"), join(t, db, "b")
		owner, first := a.claim(t, "p")
		if owner != "a" {
			t.Fatal(owner)
		}
		if owner, _ := b.claim(t, "p"); owner != "a" { // which b was not told yet
			t.Fatal(owner)
		}
		if err := a.write(t, db, first); err != nil {
			t.Fatal(err)
		}
		if err := a.Release(t.Context(), "p", first, Asleep()); err != nil {
			t.Fatal(err)
		}
		if owner, wanted := a.Owner("p"); owner != nil || wanted {
			t.Error("a plane that is asleep has an owner, or is to have one")
		}
		synctest.Wait() // until b knows
		owner, second := b.claim(t, "p")
		if owner != "b" {
			t.Fatal(owner)
		}
		if err := a.write(t, db, first); !errors.Is(err, errLost) {
			t.Errorf("a server that is not the owner any more writes: %v", err)
		}
		if err := a.Release(t.Context(), "p", first, Asleep()); err != nil {
			t.Fatal(err)
		}
		if err := b.write(t, db, second); err != nil {
			t.Errorf("the owner before has given up what it had not: %v", err)
		}
		if err := b.Release(t.Context(), "p", second, Passed(a.Self())); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		owner, third := a.claim(t, "p")
		if owner != "a" || third <= second {
			t.Errorf("passed to a: %s, %d", owner, third)
		}
		if err := a.write(t, db, third); err != nil {
			t.Error(err)
		}
		// The key of a server that does not renew it ends, and a is gone.
		a.stop()
		synctest.Wait()
		if owner, wanted := b.Owner("p"); owner != nil || !wanted || b.Chosen("p").Name != "b" {
			t.Errorf("a server has gone that had a plane: %v, %v", owner, wanted)
		}
		if owner, _ := b.claim(t, "p"); owner != "b" {
			t.Error(owner)
		}
		if err := b.End(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, _, err := b.Claim(t.Context(), "p"); !errors.Is(err, errDeleted) {
			t.Errorf("a plane that is being deleted: %v", err)
		}
		if _, wanted := b.Owner("p"); wanted {
			t.Error("a plane that is being deleted is to be awake")
		}
	})
}

// A server that is started anew has nothing of what it had; one that the log was away from takes up where it was.
func TestEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := logOf(t)
		cut := &cutable{DB: db}
		a, b := join(t, cut, "a"), join(t, db, "b")
		_, fence := a.claim(t, "p")
		cut.set(true)
		time.Sleep(life + time.Minute)
		synctest.Wait()
		if owner, wanted := b.Owner("p"); owner != nil || !wanted {
			t.Errorf("a server has not renewed its key for a minute: %v, %v", owner, wanted)
		}
		cut.set(false)
		time.Sleep(2 * renewal)
		synctest.Wait()
		if owner, _ := b.Owner("p"); owner == nil || owner.Name != "a" {
			t.Errorf("a server is back, and nobody has taken its plane: %v", owner)
		}
		if err := a.write(t, db, fence); err != nil {
			t.Error(err)
		}
		// It is started anew while what it was before still believes that it runs.
		cut.set(true)
		again := join(t, db, "a")
		synctest.Wait()
		if owner, wanted := b.Owner("p"); owner != nil || !wanted {
			t.Errorf("a new run has what another had: %v", owner)
		}
		_, next := again.claim(t, "p")
		cut.set(false)
		if err := a.write(t, db, fence); !errors.Is(err, errLost) || next <= fence {
			t.Errorf("an earlier run writes: %v", err)
		}
	})
}

// cutable is a log that can be away.
type cutable struct {
	store.DB
	mu   sync.Mutex
	away bool
}

func (c *cutable) set(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
}

// Commit is part of store.DB.
func (c *cutable) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	c.mu.Lock()
	away := c.away
	c.mu.Unlock()
	if away {
		return kv.Committed{}, errors.New("the log is away")
	}
	return c.DB.Commit(ctx, t)
}

// However servers claim, give up, pass on, go and come, and the log is away from some: the log never takes a transaction of two owners in
// turns, and what all know in the end is what the log says.
func TestOwnersRandom(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomly(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func randomly(t *testing.T, r *rand.Rand) {
	db := logOf(t)
	type server struct {
		*member
		cut    *cutable
		fences map[types.UID]int64
	}
	start := func(n int) *server {
		cut := &cutable{DB: db}
		return &server{join(t, cut, fmt.Sprint("s", n)), cut, map[types.UID]int64{}}
	}
	var all [3]*server
	for n := range all {
		all[n] = start(n)
	}
	highest := map[types.UID]int64{} // the greatest fence by which something was written
	for range 300 {
		n := r.IntN(len(all))
		s, plane := all[n], types.UID(fmt.Sprint("p", r.IntN(4)))
		switch r.IntN(8) {
		case 0, 1, 2:
			if fence, elsewhere, err := s.Claim(t.Context(), plane); err == nil && elsewhere == nil {
				s.fences[plane] = fence
			}
		case 3, 4:
			fence, ok := s.fences[plane]
			if !ok {
				break
			}
			db := s.Fence(s.cut, plane, fence, func() {})
			if done, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "/kanzen/planes/" + string(plane), Value: []byte("x")}}}); err == nil && done.Held {
				if fence < highest[plane] {
					t.Fatalf("%s has written to %s by fence %d after somebody has by %d", s.Name, plane, fence, highest[plane])
				}
				highest[plane] = fence
			}
		case 5:
			then := []Then{Asleep(), Wanted(), Passed(all[r.IntN(len(all))].Self())}[r.IntN(3)]
			if fence, ok := s.fences[plane]; ok {
				_ = s.Release(t.Context(), plane, fence, then) // it may be away
			}
		case 6:
			s.cut.set(r.IntN(2) == 0)
		case 7:
			if r.IntN(4) == 0 {
				s.stop()
				all[n] = start(n)
			}
		}
		time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
	}
	for _, s := range all {
		s.cut.set(false)
	}
	time.Sleep(2 * life)
	synctest.Wait()
	for n := range 4 {
		plane := types.UID(fmt.Sprint("p", n))
		first, wanted := all[0].Owner(plane)
		for _, s := range all[1:] {
			if owner, w := s.Owner(plane); w != wanted || (owner == nil) != (first == nil) || owner != nil && owner.id() != first.id() {
				t.Errorf("%s: %v, %v by one server and %v, %v by another", plane, first, wanted, owner, w)
			}
			if s.Chosen(plane).Name != all[0].Chosen(plane).Name {
				t.Errorf("%s: servers choose each other", plane)
			}
		}
	}
}

// at returns the only change that a server has seen.
func (m *member) change(t *testing.T) Change {
	t.Helper()
	all := m.Changes()
	if len(all) != 1 {
		t.Fatalf("%s has seen %+v", m.Name, all)
	}
	return all[0]
}

// Each server knows how planes went from one to another, and one of the two is told of it, once: that it was passed on, that its
// server was stopped, or that it was taken over, and for how long nothing was heard of its server then.
func TestChanges(t *testing.T) {
	for _, why := range []string{Moved, Stopped, TakenOver} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := logOf(t)
				cut := &cutable{DB: db}
				a, b, c := join(t, cut, "a"), join(t, db, "b"), join(t, db, "c")
				var mu sync.Mutex
				var told []Change
				for _, m := range []*member{a, b, c} {
					m.Went = func(c Change) {
						mu.Lock()
						defer mu.Unlock()
						told = append(told, c)
					}
				}
				_, fence := a.claim(t, "p")
				synctest.Wait()
				switch why {
				case Moved:
					if err := a.Release(t.Context(), "p", fence, Passed(b.Self())); err != nil {
						t.Fatal(err)
					}
				case Stopped:
					if err := errors.Join(a.Leave(t.Context()), a.Release(t.Context(), "p", fence, Wanted())); err != nil {
						t.Fatal(err)
					}
				case TakenOver:
					cut.set(true)
					time.Sleep(life + time.Second)
				}
				synctest.Wait()
				if owner, _ := b.claim(t, "p"); owner != "b" {
					t.Fatal(owner)
				}
				synctest.Wait()
				for _, m := range []*member{b, c} {
					got := m.change(t)
					if got.Plane != "p" || got.From != "a" || got.To != "b" || got.Why != why || (got.Silent >= life-renewal) != (why == TakenOver) {
						t.Errorf("%s has seen %+v", m.Name, got)
					}
				}
				mu.Lock()
				if len(told) != 1 || told[0].Why != why || told[0].From != "a" || told[0].To != "b" {
					t.Errorf("%+v is told", told)
				}
				mu.Unlock()
				// What sleeps in between has not gone from one to another.
				_, fence = b.claim(t, "p")
				if err := b.Release(t.Context(), "p", fence, Asleep()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if owner, _ := c.claim(t, "p"); owner != "c" || len(c.Changes()) != 1 {
					t.Errorf("%s has it, %+v", owner, c.Changes())
				}
				time.Sleep(2 * remembered)
				if all := c.Changes(); len(all) > 0 {
					t.Errorf("after two hours there are still %+v", all)
				}
			})
		})
	}
}

// A server that has crashed is known until it is back, or for an hour; one that was stopped is not.
func TestServersThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := logOf(t)
		cut := &cutable{DB: db}
		a, b := join(t, cut, "a"), join(t, db, "b")
		stopped := join(t, db, "c")
		_, _ = a.claim(t, "p")
		synctest.Wait()
		if all := b.Servers(); len(all) != 3 || all[0].Server == nil || all[2].Name != "c" {
			t.Fatalf("%+v", all)
		}
		if err := stopped.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if all := b.Servers(); len(all) != 3 || !all[2].Leaving {
			t.Errorf("one leaves: %+v", all)
		}
		stopped.stop()
		cut.set(true)
		at := time.Now()
		time.Sleep(life + time.Second)
		synctest.Wait()
		all := b.Servers()
		if len(all) != 2 || all[0].Name != "a" || all[0].Server != nil || at.Sub(all[0].Heard) > renewal || all[1].Name != "b" {
			t.Fatalf("one has crashed, one was stopped: %+v", all)
		}
		if free := b.Free(); len(free) != 0 {
			t.Errorf("a plane is free before the others can have taken it: %+v", free)
		}
		time.Sleep(Grace)
		if free := b.Free(); len(free) != 1 || free[0].Plane != "p" || free[0].Last != "a" || !free[0].Since.Equal(all[0].Heard) {
			t.Errorf("nobody has taken a plane: %+v", free)
		}
		if _, err := b.Ask(t.Context(), a.Self(), "/x"); !errors.Is(err, errGone) {
			t.Errorf("a server that is gone is asked: %v", err)
		}
		cut.set(false)
		time.Sleep(2 * renewal)
		synctest.Wait()
		if all := b.Servers(); len(all) != 2 || all[0].Server == nil || len(b.Free()) != 0 {
			t.Errorf("it is back: %+v, %+v", all, b.Free())
		}
		cut.set(true)
		time.Sleep(2 * remembered)
		synctest.Wait()
		if all := b.Servers(); len(all) != 1 {
			t.Errorf("after two hours: %+v", all)
		}
		// However often servers crash and planes move, what is remembered has a bound.
		b.mu.Lock()
		for n := range 2 * maxChanges {
			b.take("q", record{server: fmt.Sprint("s", n%2, "/x"), rev: int64(n + 1), seen: int64(n + 1)})
			b.went(fmt.Sprint("s", n, "/x"), &peer{heard: time.Now()})
		}
		changes, gone := len(b.changes), len(b.gone)
		b.mu.Unlock()
		if changes > maxChanges || gone > maxGone {
			t.Errorf("%d changes and %d servers are remembered", changes, gone)
		}
	})
}
