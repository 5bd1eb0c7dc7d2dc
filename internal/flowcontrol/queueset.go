package flowcontrol

import (
	"math"
	"slices"
	"time"
)

// outcome is what becomes of a request that arrives.
type outcome int

const (
	started outcome = iota
	waiting
	queueFull
	queueStillFull // and another was refused for that a moment ago
	overLimit      // there are no queues, and no seats
)

// limits configure a queueSet.
type limits struct {
	exempt   bool
	queues   int // 0: requests are served at once or never
	length   int // of a queue
	hand     int
	capacity int // seats
}

// queueSet is the queues of one priority level: who is served next, when there
// is room. It is a state machine: what happens and when are inputs, nothing is
// started and nothing waits in it. Its methods are not safe for concurrent use.
//
// It is fair queuing for servers: in virtual time, R, each queue that has
// something to do progresses at the same speed, and the request is served
// whose service would be finished first in that time.
type queueSet struct {
	limits
	// start is told of each request that begins to be served.
	start func(t *ticket)
	// observe is told of the state after each change.
	observe func(now time.Time)

	all          []*queue // there may be more than limits says, while they empty
	r            seatSeconds
	at           time.Time // when r was true
	robin        int       // the queue last served
	arrivals     int
	active       int // queues with something to do
	waiting      int // requests
	executing    int
	seatsWaiting int
	seatsInUse   int
	tickets      map[*ticket]struct{} // served now
	held         int                  // refused, and not told yet

	dispatched, rejected, timedOut, noRoom int
	last                                   choice
}

// choice tells of the last time that a queue was chosen among several, in
// virtual time.
type choice struct {
	r, start            seatSeconds // then, and at which the request starts
	least, most         seatSeconds // starts of the first requests of all queues
	leastLess, mostLess seatSeconds // the same, less the work under way
}

func newQueueSet(l limits, now time.Time, start func(*ticket), observe func(time.Time)) *queueSet {
	s := &queueSet{start: start, observe: observe, at: now, tickets: map[*ticket]struct{}{}}
	s.configure(now, l)
	return s
}

// configure sets new limits. Requests that wait in queues which are no more
// are served from there.
func (s *queueSet) configure(now time.Time, l limits) {
	s.advance(now)
	if l.queues == 0 && !l.exempt {
		l.length, l.hand = s.length, s.hand
	}
	s.limits = l
	for len(s.all) < l.queues {
		s.all = append(s.all, &queue{})
	}
	s.trim()
	s.dispatch(now, nil)
}

// arrive takes a request in. hash says which flow it is of.
func (s *queueSet) arrive(now time.Time, t *ticket, hash uint64) outcome {
	s.advance(now)
	t.arrived, t.arrivedR = now, s.r
	t.work = work(t.Initial, guess) + work(t.Final, t.Linger)
	if s.exempt || s.queues == 0 {
		if !s.fits(t.seats()) {
			s.rejected++
			return overLimit
		}
		s.serve(now, t)
		return started
	}
	q := s.pick(hash)
	if s.seatsInUse >= s.capacity && len(q.waiting) >= s.length {
		s.rejected++
		return s.refuse(now, q)
	}
	s.enqueue(q, t)
	q.bound()
	s.dispatch(now, q)
	if t.began.IsZero() {
		s.observe(now)
		return waiting
	}
	return started
}

// pick chooses the queue of a request: of the hand that its flow was dealt, the
// one with the least work waiting.
func (s *queueSet) pick(hash uint64) *queue {
	var room [16]int
	hand := deal(room[:0], hash, s.queues, s.hand)
	s.arrivals++
	var best *queue
	for n := range hand {
		// Begin at another card each time, so that among equals none is preferred.
		q := s.all[hand[(n+s.arrivals)%len(hand)]]
		if best == nil || q.workSum < best.workSum {
			best = q
		}
	}
	return best
}

// patience is the least time after which those who are refused are told to come
// again, and how long others are held who come to the same queue before that.
const patience = time.Second

// refuse says how a request is refused for which a queue has no room. As many
// are held at most as the queues have room for.
func (s *queueSet) refuse(now time.Time, q *queue) outcome {
	early := now.Sub(q.refused) < patience
	q.refused = now
	if !early || s.held >= s.queues*s.length {
		return queueFull
	}
	s.held++
	return queueStillFull
}

// unhold lets go of a request that was refused as queueStillFull.
func (s *queueSet) unhold() { s.held-- }

func (s *queueSet) enqueue(q *queue, t *ticket) {
	if !q.busy() {
		// A queue that was empty has no claim on the past.
		q.nextR = s.r
		s.active++
	}
	t.queue = q
	q.waiting = append(q.waiting, t)
	q.count(t, 1)
	s.waiting++
	s.seatsWaiting += t.seats()
}

// abandon takes out a request that has waited too long. False: it is served already.
func (s *queueSet) abandon(now time.Time, t *ticket) bool {
	if !t.began.IsZero() {
		return false
	}
	s.advance(now)
	q := t.queue
	n := slices.Index(q.waiting, t)
	q.waiting = slices.Delete(q.waiting, n, n+1)
	s.leaveQueue(q, t)
	s.rejected++
	s.timedOut++
	if !q.busy() {
		s.active--
	}
	q.bound()
	s.trim()
	s.observe(now)
	return true
}

func (s *queueSet) leaveQueue(q *queue, t *ticket) {
	q.count(t, -1)
	s.waiting--
	s.seatsWaiting -= t.seats()
}

// finish ends the service of a request. Its seats are free after the time
// returned, by release; 0: they are free now.
func (s *queueSet) finish(now time.Time, t *ticket) time.Duration {
	s.advance(now)
	s.executing--
	if q := t.queue; q != nil {
		q.executing--
		q.running.add(t, -1)
		if !q.busy() {
			s.active--
		}
		// Its queue was charged for the guess; settle that.
		q.nextR -= work(t.Initial, guess-now.Sub(t.began))
		q.bound()
	}
	if t.Linger <= 0 {
		s.free(t)
	}
	delete(s.tickets, t)
	s.dispatch(now, nil)
	s.observe(now)
	return max(t.Linger, 0)
}

// release frees the seats on which a request lingered.
func (s *queueSet) release(now time.Time, t *ticket) {
	s.advance(now)
	s.free(t)
	s.dispatch(now, nil)
	s.observe(now)
}

func (s *queueSet) free(t *ticket) {
	s.seatsInUse -= t.seats()
	if t.queue != nil {
		t.queue.seats -= t.seats()
		s.trim()
	}
}

// advance moves virtual time: every queue that has something to do has got its
// part of the seats that could be used since.
func (s *queueSet) advance(now time.Time) {
	d := now.Sub(s.at)
	if d <= 0 {
		return
	}
	s.at = now
	if s.active > 0 {
		used := min(float64(s.seatsInUse+s.seatsWaiting), float64(s.capacity))
		s.r += seatSeconds(used / float64(s.active) * d.Seconds())
	}
}

// dispatch serves all that there is room for. only, if not nil, is the queue
// that the last request came to: it is the only one to be looked at when
// nothing waits elsewhere.
func (s *queueSet) dispatch(now time.Time, only *queue) {
	for s.waiting > 0 && s.seatsInUse < s.capacity {
		q := only
		if q == nil || len(q.waiting) != s.waiting {
			q = s.next(now)
		}
		t := q.waiting[0]
		if !s.fits(t.seats()) {
			s.noRoom++
			t.flow.noAccommodation()
			return
		}
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		if len(q.waiting) == 0 {
			q.waiting = nil // the slice has moved on in its array
		}
		s.leaveQueue(q, t)
		if t.Final > s.capacity && s.capacity > 0 {
			// The same work on the seats that there are.
			t.Linger = time.Duration(float64(t.Linger) * float64(t.Final) / float64(s.capacity))
			t.Final = s.capacity
		}
		q.executing++
		q.seats += t.seats()
		s.serve(now, t)
		q.running.add(t, 1)
		q.nextR += t.work
		q.bound()
	}
}

func (s *queueSet) serve(now time.Time, t *ticket) {
	t.began = now
	s.executing++
	s.dispatched++
	s.seatsInUse += t.seats()
	s.tickets[t] = struct{}{}
	s.start(t)
	s.observe(now)
}

// fits says whether there is room for a request. One that is wider than all
// seats is served alone.
func (s *queueSet) fits(seats int) bool {
	switch {
	case s.exempt:
		return true
	case seats > s.capacity:
		return s.executing == 0
	}
	return s.seatsInUse+seats <= s.capacity
}

// next is the queue whose first request would be finished first in virtual
// time; among equals the one after that last served.
func (s *queueSet) next(now time.Time) *queue {
	inf := seatSeconds(math.Inf(1))
	least, best := inf, -1
	c := choice{r: s.r, least: inf, most: -inf, leastLess: inf, mostLess: -inf}
	for n := range s.all {
		at := (s.robin + 1 + n) % len(s.all)
		if q := s.all[at]; len(q.waiting) > 0 {
			less := q.nextR - work(q.seats, guess)
			c.least, c.most = min(c.least, q.nextR), max(c.most, q.nextR)
			c.leastLess, c.mostLess = min(c.leastLess, less), max(c.mostLess, less)
			if finish := q.nextR + q.running.beyond(now) + q.waiting[0].work; finish < least {
				least, best = finish, at
			}
		}
	}
	s.robin = best
	c.start = s.all[best].nextR
	s.last = c
	return s.all[best]
}

// trim removes queues at the end that are empty and more than are wanted.
func (s *queueSet) trim() {
	for n := len(s.all); n > s.queues && !s.all[n-1].busy() && s.all[n-1].seats == 0; n-- {
		s.all = s.all[:n-1]
	}
	if s.robin >= len(s.all) {
		s.robin = 0
	}
}

func (s *queueSet) idle() bool { return s.waiting == 0 && s.executing == 0 }
