package flowcontrol

import (
	"math"
	"slices"
)

// share is the number of seats that a priority level may have, and its demand for them.
type share struct {
	exempt      bool
	nominal     int // seats of its own
	least, most int // seats left when it lends all it may; seats when it borrows all it may
	demand      demand
	target      float64 // computed: the seats it would get if seats were unlimited
	capacity    int     // computed
	guaranteed  int     // computed: the part of its own seats that it uses
}

// borrow divides total seats among levels. Each level gets its guaranteed seats; the rest is shared in proportion to
// demand, within each level's limits. borrow sets capacity and target, and returns the fraction of its target that a
// level gets where none of its own limits applies.
func borrow(total int, levels []*share) float64 {
	left, least, guaranteed := total, 0, 0
	var limited []*share
	for _, l := range levels {
		if l.exempt {
			// An exempt level is not limited; the others share the rest.
			l.capacity = max(l.least, l.demand.high)
			l.target = float64(l.capacity)
			left -= l.capacity
			continue
		}
		l.guaranteed = max(l.least, min(l.nominal, l.demand.high))
		l.target = max(float64(l.guaranteed), l.demand.smoothed)
		least += l.least
		guaranteed += l.guaranteed
		limited = append(limited, l)
	}
	switch {
	case left <= least:
		for _, l := range limited {
			l.capacity = l.least
		}
		return 0
	case left <= guaranteed:
		part := float64(left-least) / float64(guaranteed-least)
		for _, l := range limited {
			l.capacity = l.least + int(math.Round(float64(l.guaranteed-l.least)*part))
		}
		return 0
	}
	fair := proportion(float64(total), limited)
	for _, l := range limited {
		l.capacity = int(math.Round(l.at(fair)))
	}
	return fair
}

// leastTarget is the smallest target, so that a level without demand still gets some seats.
const leastTarget = 0.001

// at returns the seats of a level when each level gets the fraction part of its target.
func (s *share) at(part float64) float64 {
	return min(float64(s.most), max(float64(s.guaranteed), part*max(s.target, leastTarget)))
}

// proportion returns the fraction of their targets at which levels together get total seats, or come as near as their
// limits allow. The sum is piecewise linear in the fraction; it bends where a level reaches a limit.
func proportion(total float64, levels []*share) float64 {
	var turns []float64
	for _, l := range levels {
		t := max(l.target, leastTarget)
		turns = append(turns, float64(l.guaranteed)/t, float64(l.most)/t)
	}
	slices.Sort(turns)
	sum := func(part float64) (s float64) {
		for _, l := range levels {
			s += l.at(part)
		}
		return s
	}
	before, had := 0.0, sum(0)
	for _, turn := range turns {
		got := sum(turn)
		if got >= total {
			if got > had {
				return before + (turn-before)*max(0, total-had)/(got-had)
			}
			return turn
		}
		before, had = turn, got
	}
	return before
}
