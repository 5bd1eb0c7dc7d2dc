package flowcontrol

import (
	"slices"
	"time"
)

// seatSeconds measures work, and the progress of queues in the virtual time of fair queuing.
type seatSeconds float64

func work(seats int, d time.Duration) seatSeconds {
	return seatSeconds(float64(seats) * d.Seconds())
}

// guess is the assumed service time of a request that is not finished.
const guess = 3 * time.Millisecond

// Estimate is the expected cost of a request.
type Estimate struct {
	// Initial is the number of seats while the request is served. Final is the number for Linger after that: events of
	// a write are still sent to its watchers after the answer.
	Initial, Final int
	Linger         time.Duration
}

// seats returns the seats that a request holds from its start to the end of its linger time.
func (e Estimate) seats() int { return max(e.Initial, e.Final) }

// ticket is a request's place in a queueSet.
type ticket struct {
	Estimate
	flow     *flow
	which    string // the distinguisher of its flow
	work     seatSeconds
	queue    *queue // nil where there are no queues
	arrived  time.Time
	arrivedR seatSeconds
	began    time.Time     // start of service; zero while it waits
	ready    chan struct{} // closed when the request may execute; made by the waiting goroutine
	details  *details
}

// queue holds the waiting requests of its flows, in order of arrival.
type queue struct {
	waiting              []*ticket
	executing            int
	seats                int // in use, including seats in linger time
	nextR                seatSeconds
	running              running   // the executing requests
	refused              time.Time // time of the last rejection
	initialSum, seatsSum int       // of the waiting requests
	workSum              seatSeconds
}

// running is the work that executing requests have used beyond the guess that their queue was charged at the start.
// Without it, a flow with slow requests would be served on credit again and again.
type running struct {
	seats int
	epoch time.Time // a time at or before the start of each of them
	since float64   // sum over seats of the time when the guess is used up, in seconds from the epoch
}

func (r *running) add(t *ticket, sign int) {
	if r.seats == 0 {
		r.epoch, r.since = t.began, 0
	}
	r.seats += sign * t.Initial
	r.since += float64(sign*t.Initial) * t.began.Add(guess).Sub(r.epoch).Seconds()
}

// beyond returns the work used beyond the guess.
func (r *running) beyond(now time.Time) seatSeconds {
	return seatSeconds(max(0, float64(r.seats)*now.Sub(r.epoch).Seconds()-r.since))
}

func (q *queue) busy() bool { return len(q.waiting) > 0 || q.executing > 0 }

// inUse reports whether a queue, which may not have been made yet (nil), has requests, or seats in linger time.
func (q *queue) inUse() bool { return q != nil && (q.busy() || q.seats > 0) }

// waitingWork is the work of the requests that wait in a queue, which may not have been made yet (nil).
func (q *queue) waitingWork() seatSeconds {
	if q == nil {
		return 0
	}
	return q.workSum
}

func (q *queue) count(t *ticket, sign int) {
	q.initialSum += sign * t.Initial
	q.seatsSum += sign * t.seats()
	q.workSum += seatSeconds(sign) * t.work
	if len(q.waiting) == 0 {
		q.workSum = 0 // removes rounding errors
	}
}

// bound keeps a queue's virtual start time at or after the arrival of its first request: an idle queue saves up no
// credit.
func (q *queue) bound() {
	if len(q.waiting) > 0 {
		q.nextR = max(q.nextR, q.waiting[0].arrivedR)
	}
}

// deal picks a hand of different cards from a deck by a hash; each hand is about equally likely (shuffle sharding).
func deal(cards []int, hash uint64, deck, hand int) []int {
	var room [16]int
	taken := room[:0] // in ascending order
	for n := range hand {
		left := uint64(deck - n)
		card := int(hash % left)
		hash /= left
		// card counts only the cards that are left: skip those already taken.
		at := 0
		for ; at < len(taken) && card >= taken[at]; at++ {
			card++
		}
		taken = slices.Insert(taken, at, card)
		cards = append(cards, card)
	}
	return cards
}
