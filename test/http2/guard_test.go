package http2_test

import (
	"context"
	"sync"
	"testing"
	"time"
)

// This file has what is required of a server while a client does it harm, whatever the harm is.

// loose is how many goroutines a server may have more than before, once the connections of those who did it harm are closed:
// what etcd and the caches start now and then is not theirs.
const loose = 30

// withstands does harm to a server, and fails the test unless, meanwhile and afterwards,
//   - other clients are answered at once,
//   - it takes no more memory than the bound, in MiB, at any moment,
//   - nothing in it panics,
//   - it gives up what it began for the connections that harm closes.
func (s *server) withstands(t *testing.T, bound int, harm func()) {
	t.Helper()
	must(t, s.answers(t.Context())) // what the first request takes is no harm
	goroutines := s.goroutines(t)
	s.forget(t)
	before, _ := s.memory(t)
	ctx, cancel := context.WithCancel(t.Context())
	var probes sync.WaitGroup
	probes.Go(func() { s.probe(ctx, t) })
	began := time.Now()
	harm()
	took := time.Since(began)
	cancel()
	probes.Wait()
	s.answersEveryone(t.Context(), t)
	_, peak := s.memory(t)
	t.Logf("it took %.1f s, and at most %d MiB more than the %d before", took.Seconds(), peak-before, before)
	if peak-before > bound {
		t.Errorf("it took %d MiB more than the %d before; at most %d are due", peak-before, before, bound)
	}
	s.noPanic(t)
	s.settles(t, goroutines+loose)
}

// probe asks all the time.
func (s *server) probe(ctx context.Context, t *testing.T) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.answersEveryone(ctx, t)
		}
	}
}

// answersEveryone asks once more where no answer comes at once: other programs on the machine may have been the reason. A
// server that is stuck, or busy with the harm, is as slow the second time.
func (s *server) answersEveryone(ctx context.Context, t *testing.T) {
	t.Helper()
	first := s.answers(ctx)
	if first == nil || ctx.Err() != nil {
		return
	}
	if err := s.answers(ctx); err != nil && ctx.Err() == nil {
		t.Errorf("another client had no answer at once: %v, before that %v", err, first)
	}
}

// settles waits until the server has no more goroutines than this.
func (s *server) settles(t *testing.T, most int) {
	t.Helper()
	end := time.Now().Add(patience)
	n := s.goroutines(t)
	for ; n > most && time.Now().Before(end); n = s.goroutines(t) {
	}
	if n > most {
		t.Errorf("it has %d goroutines, %s after what they were for ended; at most %d are due", n, patience, most)
	}
}
