package flowcontrol

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestBorrow(t *testing.T) {
	level := func(nominal, lends, borrows, high int, smoothed float64) *share {
		return &share{nominal: nominal, least: nominal - lends, most: nominal + borrows, demand: demand{high: high, smoothed: smoothed}}
	}
	for _, c := range []struct {
		name   string
		total  int
		levels []*share
		want   []int
	}{
		{"nobody wants any", 100, []*share{level(50, 0, 100, 0, 0), level(50, 0, 100, 0, 0)}, []int{50, 50}},
		{"one wants all, the other lends half", 100, []*share{level(50, 25, 100, 50, 500), level(50, 25, 100, 0, 0)}, []int{75, 25}},
		{"what is used of one's own is not lent", 100, []*share{level(50, 25, 100, 50, 500), level(50, 25, 100, 40, 40)}, []int{60, 40}},
		{"borrowing has its bound", 100, []*share{level(50, 50, 10, 50, 500), level(50, 50, 100, 0, 0)}, []int{60, 40}},
		{"in proportion to demand", 100, []*share{level(30, 30, 100, 0, 20), level(30, 30, 100, 0, 60), level(40, 40, 100, 0, 0)}, []int{25, 75, 0}},
		{"what is exempt takes what it takes", 100, []*share{{exempt: true, demand: demand{high: 90}}, level(50, 40, 100, 50, 50), level(50, 40, 100, 50, 50)}, []int{90, 10, 10}},
	} {
		borrow(c.total, c.levels)
		for n, l := range c.levels {
			if l.capacity != c.want[n] {
				t.Errorf("%s: level %d has %d seats, want %d", c.name, n, l.capacity, c.want[n])
			}
		}
	}
}

// The sum of seats stays the same, and each level's limits hold.
func TestBorrowKeepsTheSum(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		var levels []*share
		total := 0
		for range 2 + rnd.IntN(8) {
			n := 1 + rnd.IntN(100)
			total += n
			levels = append(levels, &share{nominal: n, least: n - rnd.IntN(n+1), most: n + rnd.IntN(200),
				demand: demand{high: rnd.IntN(2 * n), smoothed: rnd.Float64() * float64(3*n)}})
		}
		borrow(total, levels)
		sum := 0
		for _, l := range levels {
			sum += l.capacity
			if l.capacity < l.least || l.capacity > l.most {
				t.Fatalf("%+v", l)
			}
		}
		if d := sum - total; d > len(levels) || -d > len(levels) { // rounding
			t.Fatalf("%d seats of %d are given out", sum, total)
		}
	}
}

func TestDemand(t *testing.T) {
	i := integrator{at: epoch}
	i.set(epoch.Add(time.Second), 4) // 0 for a second
	p := i.reset(epoch.Add(2 * time.Second))
	if p.average != 2 || p.deviation != 2 || p.greatest != 4 || p.seconds != 2 {
		t.Errorf("%+v", p)
	}
	var d demand
	d.add(p)
	if d.high != 4 || d.smoothed != 4 {
		t.Errorf("up at once: %+v", d)
	}
	d.add(period{seconds: 10})
	if d.smoothed <= 3.9 || d.smoothed >= 4 {
		t.Errorf("down slowly: %v", d.smoothed)
	}
}

func TestRetryAdvice(t *testing.T) {
	a, now := &retryAdvice{after: 1}, epoch
	for range 100 {
		for range 500 {
			a.refused(now)
		}
		now = now.Add(time.Second)
	}
	if got := a.refused(now); got != maxRetryAfter {
		t.Errorf("under a flood: %d seconds", got)
	}
	for range 200 {
		now = now.Add(40 * time.Second)
		a.refused(now)
	}
	if got := a.refused(now); got != 1 {
		t.Errorf("long after it: %d seconds", got)
	}
}
