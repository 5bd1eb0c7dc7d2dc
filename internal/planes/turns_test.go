package planes

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// crew is requests of planes, each named by its plane and a number, and the order in which they have begun.
type crew struct {
	all    *turns
	shares map[byte]*share

	mu    sync.Mutex
	began []string
	held  map[string]*turn
}

func newCrew(room int) *crew {
	return &crew{all: newTurns(clock.RealClock{}, room), shares: map[byte]*share{}, held: map[string]*turn{}}
}

// ask has requests come in their order.
func (c *crew) ask(ctx context.Context, names ...string) {
	for _, name := range names {
		s := c.shares[name[0]]
		if s == nil {
			s = &share{}
			c.shares[name[0]] = s
		}
		go func() {
			n := c.all.take(ctx, s)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.began, c.held[name] = append(c.began, name), n
		}()
		synctest.Wait()
	}
}

// end ends requests.
func (c *crew) end(names ...string) {
	for _, name := range names {
		c.held[name].end()
		synctest.Wait()
	}
}

// want compares which requests have begun since it was called last.
func (c *crew) want(t *testing.T, names ...string) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.began, names) {
		t.Errorf("%q have begun, not %q", c.began, names)
	}
	c.began = nil
}

// A plane that is flooded has the turns that others leave; one that has none waits for nobody; and those that wait take turns.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newCrew(2), t.Context()
		c.ask(ctx, "a1", "a2", "a3", "a4", "a5")
		c.want(t, "a1", "a2")
		c.ask(ctx, "b1", "b2", "b3")
		c.want(t, "b1") // at once, though all turns are taken
		c.end("a1")
		c.want(t) // there are still two
		c.end("a2")
		c.want(t, "a3") // it has none any more
		c.end("b1")
		c.want(t, "b2")
		c.end("a3", "b2")
		c.want(t, "a4", "b3")
		c.end("a4", "b3")
		c.want(t, "a5")
		c.ask(ctx, "c1", "c2", "d1", "d2")
		c.want(t, "c1", "d1")
		c.end("a5", "c1", "d1")
		c.want(t, "c2", "d2")
		c.end("c2", "d2")
		if c.all.taken != 0 || c.all.held.Len() != 0 || len(c.all.waiting) != 0 {
			t.Errorf("%+v is left", c.all)
		}
	})
}

// Between planes that all have requests waiting turns go round.
func TestTurnsGoRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newCrew(3), t.Context()
		c.ask(ctx, "a1", "a2", "a3", "a4", "a5", "a6", "b1", "b2", "b3", "b4")
		c.want(t, "a1", "a2", "a3", "b1")
		c.end("a1", "a2")
		c.want(t, "a4")
		c.end("a3")
		c.want(t, "b2")
		c.end("a4")
		c.want(t, "a5")
		c.end("b1")
		c.want(t, "b3")
		c.end("a5", "b2", "b3")
	})
}

// A request that waits for something else keeps nobody waiting for long.
func TestLongTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newCrew(1), t.Context()
		c.ask(ctx, "a1", "a2", "a3")
		c.want(t, "a1")
		time.Sleep(turnTime - time.Millisecond)
		c.want(t)
		time.Sleep(time.Millisecond)
		c.want(t, "a2")
		c.end("a1") // which did not count any more
		c.want(t)
		time.Sleep(turnTime)
		c.want(t, "a3")
		c.end("a2", "a3")
		if c.all.taken != 0 || c.shares['a'].taken != 0 {
			t.Errorf("%+v is left", c.all)
		}
	})
}

// A request that waits for the log gives its turn back, and goes on before those of its plane that have not begun.
func TestPausedTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newCrew(1), t.Context()
		c.ask(ctx, "a1", "a2", "a3")
		c.want(t, "a1")
		resume := pause(c.held["a1"].with(ctx))
		c.want(t, "a2")
		again := make(chan struct{})
		go func() { resume(); close(again) }()
		c.want(t)
		c.end("a2")
		<-again
		c.want(t)
		c.end("a1")
		c.want(t, "a3")
		c.end("a3")
		pause(ctx)() // a context without a turn
	})
}

// A client that goes away waits no longer, and nobody for it.
func TestTurnsOfClientsThatGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(1)
		ctx, cancel := context.WithCancel(t.Context())
		c.ask(t.Context(), "a1")
		c.ask(ctx, "a2", "b1", "b2")
		c.want(t, "a1", "b1")
		cancel()
		synctest.Wait()
		c.mu.Lock()
		c.began = nil // they are told of the end
		c.mu.Unlock()
		c.ask(t.Context(), "a3")
		c.end("a1")
		c.want(t, "a3")
		c.end("b1", "a2", "b2", "a3")
		if c.all.taken != 0 || len(c.all.waiting) != 0 || len(c.shares['a'].queue) != 0 {
			t.Errorf("%+v is left", c.all)
		}
	})
}
