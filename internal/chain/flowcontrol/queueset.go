package flowcontrol

import (
	"iter"
	"math"
	"slices"
	"time"
)

// outcome is the result of a request's arrival.
type outcome int

const (
	started outcome = iota
	waiting
	queueFull
	queueStillFull // the queue is full, and rejected another request a moment ago
	overLimit      // no queues and no free seats
)

// limits is the configuration of a queueSet.
type limits struct {
	exempt   bool
	queues   int // 0: requests execute at once or are rejected
	length   int // of each queue
	hand     int
	capacity int // seats
}

// queueSet is the queues of one priority level. It decides which request is next when seats are free. It is a state
// machine: events and their times are inputs, and it starts and blocks nothing. Its methods are not safe for concurrent
// use.
//
// It implements fair queuing for servers: in virtual time R, all busy queues progress at the same speed, and the next
// request is the one that would finish first in virtual time.
type queueSet struct {
	limits
	// start is called for each request that begins to execute.
	start func(t *ticket)
	// observe is called after each change of the state.
	observe func(now time.Time)

	// all may be longer than limits.queues until the extra queues are empty. A queue is made by its first request (nil: it had none), as most
	// never have one.
	all          []*queue
	r            seatSeconds
	at           time.Time // the time at which r was updated
	robin        int       // index of the queue last served
	arrivals     int
	active       int // queues with waiting or executing requests
	waiting      int // waiting requests
	executing    int
	seatsWaiting int
	seatsInUse   int
	tickets      map[*ticket]struct{} // executing requests
	held         int                  // rejected requests whose answer is delayed

	dispatched, rejected, timedOut, noRoom int
	last                                   choice
}

// choice records the last choice among several queues, in virtual time, for metrics.
type choice struct {
	r, start            seatSeconds // r is the time of the choice, start that of the chosen request
	least, most         seatSeconds // starts of the first requests of all queues
	leastLess, mostLess seatSeconds // the same, less the work of executing requests
}

func newQueueSet(l limits, now time.Time, start func(*ticket), observe func(time.Time)) *queueSet {
	s := &queueSet{start: start, observe: observe, at: now, tickets: map[*ticket]struct{}{}}
	s.configure(now, l)
	return s
}

// configure sets new limits. Requests in surplus queues are still served from there.
func (s *queueSet) configure(now time.Time, l limits) {
	s.advance(now)
	if l.queues == 0 && !l.exempt {
		l.length, l.hand = s.length, s.hand
	}
	s.limits = l
	for len(s.all) < l.queues {
		s.all = append(s.all, nil)
	}
	s.trim()
	s.dispatch(now, nil)
}

// arrive enqueues, starts or rejects a request. hash is that of its flow.
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

// pick returns the queue with the least waiting work among the hand of the flow.
func (s *queueSet) pick(hash uint64) *queue {
	var room [16]int
	hand := deal(room[:0], hash, s.queues, s.hand)
	s.arrivals++
	best := -1
	for n := range hand {
		// Begin at another card each time, so that no queue is preferred among equals.
		at := hand[(n+s.arrivals)%len(hand)]
		if best < 0 || s.all[at].waitingWork() < s.all[best].waitingWork() {
			best = at
		}
	}
	if s.all[best] == nil {
		s.all[best] = &queue{}
	}
	return s.all[best]
}

// patience is the shortest Retry-After. A request that arrives at the same queue within patience of a rejection is
// rejected with a delay.
const patience = time.Second

// made returns the queues that had requests, by index.
func (s *queueSet) made() iter.Seq2[int, *queue] {
	return func(yield func(int, *queue) bool) {
		for n, q := range s.all {
			if q != nil && !yield(n, q) {
				return
			}
		}
	}
}

// refuse returns how a request is rejected when its queue is full. The number of delayed rejections is bounded by the
// queues' total length.
func (s *queueSet) refuse(now time.Time, q *queue) outcome {
	early := now.Sub(q.refused) < patience
	q.refused = now
	if !early || s.held >= s.queues*s.length {
		return queueFull
	}
	s.held++
	return queueStillFull
}

// unhold ends the delay of a request that was rejected as queueStillFull.
func (s *queueSet) unhold() { s.held-- }

func (s *queueSet) enqueue(q *queue, t *ticket) {
	if !q.busy() {
		// A queue that was empty gets no credit for the past.
		q.nextR = s.r
		s.active++
	}
	t.queue = q
	q.waiting = append(q.waiting, t)
	q.count(t, 1)
	s.waiting++
	s.seatsWaiting += t.seats()
}

// abandon removes a request that has waited too long. It returns false if the request is already executing.
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

// finish ends the service of a request. It returns the time after which the caller releases the seats; 0: they are free
// now.
func (s *queueSet) finish(now time.Time, t *ticket) time.Duration {
	s.advance(now)
	s.executing--
	if q := t.queue; q != nil {
		q.executing--
		q.running.add(t, -1)
		if !q.busy() {
			s.active--
		}
		// Its queue was charged the guess: correct it by the real service time.
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

// release frees a request's seats at the end of its linger time.
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

// advance moves virtual time forward: each busy queue has received its part of the usable seats since the last call.
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

// dispatch starts all requests for which there are seats. only, if not nil, is the queue of the last arrival; only this
// queue needs a check if no other queue has waiting requests.
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
			q.waiting = nil // free the array: the slice has moved on in it
		}
		s.leaveQueue(q, t)
		if t.Final > s.capacity && s.capacity > 0 {
			// The same work on the seats that exist.
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

// fits reports whether there are enough seats for a request. A request wider than all seats executes alone.
func (s *queueSet) fits(seats int) bool {
	switch {
	case s.exempt:
		return true
	case seats > s.capacity:
		return s.executing == 0
	}
	return s.seatsInUse+seats <= s.capacity
}

// next returns the queue whose first request would finish first in virtual time; among equals, the one after the queue
// last served.
func (s *queueSet) next(now time.Time) *queue {
	inf := seatSeconds(math.Inf(1))
	least, best := inf, -1
	c := choice{r: s.r, least: inf, most: -inf, leastLess: inf, mostLess: -inf}
	for n := range s.all {
		at := (s.robin + 1 + n) % len(s.all)
		if q := s.all[at]; q != nil && len(q.waiting) > 0 {
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

// trim removes surplus empty queues from the end.
func (s *queueSet) trim() {
	for n := len(s.all); n > s.queues && !s.all[n-1].inUse(); n-- {
		s.all = s.all[:n-1]
	}
	if s.robin >= len(s.all) {
		s.robin = 0
	}
}

func (s *queueSet) idle() bool { return s.waiting == 0 && s.executing == 0 }
