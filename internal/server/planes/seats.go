package planes

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// seats bound how many requests of a plane are answered at the same time, watches and streams apart, whoever asks: the others wait.
// So a plane that is flooded has its share of the processors, and its neighbours have theirs.
type seats struct {
	taken   chan struct{}
	waiting atomic.Int64
	away    atomic.Int64 // requests that have left their seats while they wait for others
}

// seatsEach is how many seats a plane has for each processor, and seatsLeast how many it has at least: a request also waits for the
// database. crowd is how many requests may wait for each seat. abroad is how many may have left one for a while, as each holds its
// body: further ones stay in theirs.
const seatsEach, seatsLeast, crowd, abroad = 4, 16, 50, 4

func newSeats() *seats {
	return &seats{taken: make(chan struct{}, max(seatsLeast, seatsEach*runtime.GOMAXPROCS(0)))}
}

// sit waits for a seat of a request, which stand gives back; nil: there is none, or too many wait.
func (s *seats) sit(ctx context.Context) *seat {
	select {
	case s.taken <- struct{}{}:
		return &seat{of: s, ctx: ctx}
	default:
	}
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > int64(crowd*cap(s.taken)) {
		return nil
	}
	select {
	case s.taken <- struct{}{}:
		return &seat{of: s, ctx: ctx}
	case <-ctx.Done():
		return nil
	}
}

// seat is that of one request. It is the request's turn (request.Turn): while that waits for webhooks, which may take long and may
// ask the same plane, others have it.
type seat struct {
	of  *seats
	ctx context.Context // of the request

	mu   sync.Mutex
	away int  // servers for which the request waits; guarded by mu
	kept bool // the seat was not left meanwhile; guarded by mu
	left bool // the seat is not the request's any more; guarded by mu
}

// Leave is part of request.Turn.
func (s *seat) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away++; s.away > 1 || s.left {
		return
	}
	if s.kept = s.of.away.Add(1) > int64(abroad*cap(s.of.taken)); s.kept {
		s.of.away.Add(-1)
		return
	}
	<-s.of.taken
}

// Return is part of request.Turn.
func (s *seat) Return() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away--; s.away > 0 || s.left || s.kept {
		return
	}
	s.of.away.Add(-1)
	select {
	case s.of.taken <- struct{}{}:
	case <-s.ctx.Done():
		s.left = true // what is left to do is little
	}
}

// stand gives the seat back for good.
func (s *seat) stand() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.left:
	case s.away > 0 && !s.kept:
		s.of.away.Add(-1)
	default:
		<-s.of.taken
	}
	s.left = true
}
