package flowcontrol

import (
	"slices"
	"time"
)

// seatSeconds measures work, and the progress that the queues of a level make
// in the virtual time of fair queuing.
type seatSeconds float64

func work(seats int, d time.Duration) seatSeconds {
	return seatSeconds(float64(seats) * d.Seconds())
}

// guess is how long a request is taken to be served before it has been.
const guess = 3 * time.Millisecond

// Estimate is what a request is expected to cost.
type Estimate struct {
	// Initial is how many seats it takes while it is served, Final how many for
	// Linger after that: a write is still work when it has been answered, if
	// many watch.
	Initial, Final int
	Linger         time.Duration
}

// seats is how many a request holds from its start to the end of its lingering.
func (e Estimate) seats() int { return max(e.Initial, e.Final) }

// ticket is a request's place in a queueSet.
type ticket struct {
	Estimate
	flow     *flow
	which    string // of the flow's, told apart by its distinguisher
	work     seatSeconds
	queue    *queue // nil where there are no queues
	arrived  time.Time
	arrivedR seatSeconds
	began    time.Time     // of its service; zero: it waits
	ready    chan struct{} // closed when it is to be served; made by who waits
	details  *details
}

// queue holds the waiting requests of some flows, in order of arrival.
type queue struct {
	waiting              []*ticket
	executing            int
	seats                int // in use, lingering ones included
	nextR                seatSeconds
	running              running   // of those executing
	refused              time.Time // when one was last
	initialSum, seatsSum int       // of those waiting
	workSum              seatSeconds
}

// running is what requests that are being served have taken beyond what their
// queue was charged for when they began. A flow whose requests take long would
// else be served again and again on credit.
type running struct {
	seats int
	epoch time.Time // some time since when there have been any
	since float64   // the sum over seats of when the guess is used up, in seconds from the epoch
}

func (r *running) add(t *ticket, sign int) {
	if r.seats == 0 {
		r.epoch, r.since = t.began, 0
	}
	r.seats += sign * t.Initial
	r.since += float64(sign*t.Initial) * t.began.Add(guess).Sub(r.epoch).Seconds()
}

// beyond is how much it is.
func (r *running) beyond(now time.Time) seatSeconds {
	return seatSeconds(max(0, float64(r.seats)*now.Sub(r.epoch).Seconds()-r.since))
}

func (q *queue) busy() bool { return len(q.waiting) > 0 || q.executing > 0 }

func (q *queue) count(t *ticket, sign int) {
	q.initialSum += sign * t.Initial
	q.seatsSum += sign * t.seats()
	q.workSum += seatSeconds(sign) * t.work
	if len(q.waiting) == 0 {
		q.workSum = 0 // without what is left by rounding
	}
}

// bound keeps a queue from being served, in virtual time, before its first
// request arrived: credit is not saved up.
func (q *queue) bound() {
	if len(q.waiting) > 0 {
		q.nextR = max(q.nextR, q.waiting[0].arrivedR)
	}
}

// deal picks hand cards of a deck by a hash, all different, each hand about as
// likely as any: shuffle sharding.
func deal(cards []int, hash uint64, deck, hand int) []int {
	var room [16]int
	taken := room[:0] // ascending
	for n := range hand {
		left := uint64(deck - n)
		card := int(hash % left)
		hash /= left
		// It is a card of those left: count past those that are taken.
		at := 0
		for ; at < len(taken) && card >= taken[at]; at++ {
			card++
		}
		taken = slices.Insert(taken, at, card)
		cards = append(cards, card)
	}
	return cards
}
