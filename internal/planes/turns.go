package planes

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// turns share the processors between planes. A request takes a turn while it is worked on, and gives it back while it waits for the log.
// As many turns as there are processors may be taken together; the next goes to the plane that was served longest ago, and in it to the
// request that came first. A plane that has none takes one at once: however many requests others have, it waits for none of them.
//
// A turn counts for at most turnTime. Who has it longer mostly waits for something else, a webhook or a client that reads slowly.
type turns struct {
	clock clock.WithDelayedExecution
	room  int // that may be taken together

	mu      sync.Mutex
	taken   int       // guarded by mu, as are all below and all of shares
	held    list.List // of *turn that count, the oldest first
	waiting []*share  // those with requests that wait; the next turn is the first one's
	look    clock.Timer
}

// turnTime is how long a turn counts.
const turnTime = 20 * time.Millisecond

// share is what one plane has of the turns.
type share struct {
	taken int
	queue []*turn
}

// turn is one request's.
type turn struct {
	all   *turns
	share *share
	began time.Time
	place *list.Element // in held; nil: it does not count
	given chan struct{} // closed when it is its turn; nil: it never waited
}

func newTurns(c clock.WithDelayedExecution, room int) *turns { return &turns{clock: c, room: room} }

// take waits for a turn, until ctx ends at the latest: nobody waits for a request whose client has gone. end must be called.
func (t *turns) take(ctx context.Context, s *share) *turn {
	n := &turn{all: t, share: s}
	n.wait(ctx, false)
	return n
}

// wait makes the turn count. again says that it did before, and so comes before those of its plane that have not begun.
func (n *turn) wait(ctx context.Context, again bool) {
	t := n.all
	t.mu.Lock()
	if n.share.taken == 0 || t.taken < t.room {
		t.begin(n)
		t.mu.Unlock()
		return
	}
	n.given = make(chan struct{})
	if len(n.share.queue) == 0 {
		t.waiting = append(t.waiting, n.share)
	}
	if again {
		n.share.queue = slices.Insert(n.share.queue, 0, n)
	} else {
		n.share.queue = append(n.share.queue, n)
	}
	t.watch()
	t.mu.Unlock()
	select {
	case <-n.given:
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		t.forget(n)
	}
}

// end gives the turn back.
func (n *turn) end() {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	n.all.release(n)
}

// begin makes a turn count.
func (t *turns) begin(n *turn) {
	n.began, n.place = t.clock.Now(), t.held.PushBack(n)
	n.share.taken++
	t.taken++
}

// release has a turn count no more, and lets others begin.
func (t *turns) release(n *turn) {
	if n.place == nil {
		return
	}
	t.held.Remove(n.place)
	n.place = nil
	n.share.taken--
	t.taken--
	if n.share.taken == 0 && len(n.share.queue) > 0 {
		t.next(n.share)
	}
	for t.taken < t.room && len(t.waiting) > 0 {
		t.next(t.waiting[0])
	}
}

// next begins the first request of a share that waits.
func (t *turns) next(s *share) {
	n := s.queue[0]
	t.forget(n)
	if len(s.queue) > 0 { // the others' next ones come before its next
		at := slices.Index(t.waiting, s)
		t.waiting = append(slices.Delete(t.waiting, at, at+1), s)
	}
	t.begin(n)
	close(n.given)
}

// forget takes a turn out of its queue, if it is there.
func (t *turns) forget(n *turn) {
	at := slices.Index(n.share.queue, n)
	if at < 0 {
		return
	}
	if n.share.queue = slices.Delete(n.share.queue, at, at+1); len(n.share.queue) == 0 {
		at := slices.Index(t.waiting, n.share)
		t.waiting = slices.Delete(t.waiting, at, at+1)
	}
}

// watch looks at the oldest turn when it has counted for long enough, as long as somebody waits.
func (t *turns) watch() {
	if oldest := t.held.Front(); t.look == nil && oldest != nil && len(t.waiting) > 0 {
		t.look = t.clock.AfterFunc(turnTime-t.clock.Since(oldest.Value.(*turn).began), func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.look = nil
			for at := t.held.Front(); at != nil && t.clock.Since(at.Value.(*turn).began) >= turnTime; at = t.held.Front() {
				t.release(at.Value.(*turn))
			}
			t.watch()
		})
	}
}

// turnKey is the key of a request's turn in its context.
type turnKey struct{}

// with returns a context that has the turn.
func (n *turn) with(ctx context.Context) context.Context { return context.WithValue(ctx, turnKey{}, n) }

// pause gives back the turn of a context, if it has one, until resume is called.
func pause(ctx context.Context) (resume func()) {
	n, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return func() {}
	}
	n.end()
	return func() { n.wait(ctx, true) }
}
