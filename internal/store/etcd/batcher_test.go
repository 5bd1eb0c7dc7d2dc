package etcd

import (
	"context"
	"errors"
	"runtime"
	"testing"
)

// A reader never gets the answer to a request that was sent before the reader
// came, readers that wait together share one, and one that gives up does not
// disturb the others.
func TestBatcher(t *testing.T) {
	asked, answer := make(chan int64), make(chan struct{})
	calls := int64(0)
	b := &batcher{fetch: func(context.Context) (int64, error) {
		calls++
		n := calls
		asked <- n
		<-answer
		return n, nil
	}}
	type result struct {
		rev int64
		err error
	}
	get := func(ctx context.Context) <-chan result {
		joined := make(chan result, 1)
		go func() {
			rev, err := b.get(ctx)
			joined <- result{rev, err}
		}()
		return joined
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := get(ctx)
	<-asked
	cancel()
	if r := <-first; !errors.Is(r.err, context.Canceled) {
		t.Errorf("a reader that gave up: %v", r)
	}
	// These come while the first request is under way: they must not get its
	// answer.
	var later []<-chan result
	for range 3 {
		later = append(later, get(t.Context()))
	}
	for gathered := false; !gathered; {
		b.mu.Lock()
		gathered = b.next != nil
		b.mu.Unlock()
		runtime.Gosched()
	}
	close(answer)
	for _, c := range later {
		for done := false; !done; {
			select {
			case r := <-c:
				if r.err != nil || r.rev < 2 {
					t.Errorf("a later reader: %v", r)
				}
				done = true
			case <-asked: // readers that came too late to share ask again
			}
		}
	}
}
