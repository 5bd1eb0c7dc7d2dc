package flowcontrol

import (
	"math"
	"slices"
)

// share is what a level may have of the seats, and what it would like.
type share struct {
	exempt      bool
	nominal     int // its own
	least, most int // after lending all that it lends, after borrowing all that it may
	demand      demand
	target      float64 // computed: what it would get of seats without end
	capacity    int     // computed
	guaranteed  int     // computed: of its own, what it uses
}

// borrow divides total seats among levels: each gets what it needs of its own,
// and what is left is shared in proportion to their demand, within what each may
// have. It sets capacity and target, and returns the proportion of its
// target that a level gets where no limit of its own intervenes.
func borrow(total int, levels []*share) float64 {
	left, least, guaranteed := total, 0, 0
	var limited []*share
	for _, l := range levels {
		if l.exempt {
			// It takes what it takes; the others have the rest.
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

// leastTarget keeps a level that wants nothing from getting nothing for ever.
const leastTarget = 0.001

// at is what a level gets when each gets a part of its target.
func (s *share) at(part float64) float64 {
	return min(float64(s.most), max(float64(s.guaranteed), part*max(s.target, leastTarget)))
}

// proportion finds the part of their targets at which levels get total
// together, or as near as their limits let them. What they get grows with the
// part, in straight lines between the parts at which one of them comes to a limit.
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
