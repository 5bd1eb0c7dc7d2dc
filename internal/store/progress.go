package store

import (
	"context"
	"sync"
)

// Progress is how far a follower of a view has come.
type Progress struct {
	view  *View
	ready chan struct{} // closed when everything from before the start was told

	mu    sync.Mutex
	begun bool          // ready is closed
	since int64         // what was told first
	rev   int64         // up to which everything was told
	moved chan struct{} // closed when rev changes
}

// NewProgress returns the progress of a follower of a view; its Reached is to be
// told by Index.Follow.
func NewProgress(v *View) *Progress {
	return &Progress{view: v, ready: make(chan struct{}), moved: make(chan struct{})}
}

// Reached notes that everything up to a revision was told.
func (p *Progress) Reached(rev int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		p.begun, p.since = true, rev
		close(p.ready)
	}
	p.rev = rev
	close(p.moved)
	p.moved = make(chan struct{})
}

// Since is the revision of what the follower was told first, 0 before that: of earlier changes it knows nothing.
func (p *Progress) Since() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since
}

// Ready is closed once everything from before the start was told.
func (p *Progress) Ready() <-chan struct{} { return p.ready }

// CatchUp returns once the follower was told of every write that was
// acknowledged before the call.
func (p *Progress) CatchUp(ctx context.Context) error {
	select {
	case <-p.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := p.view.Fresh(ctx); err != nil {
		return err
	}
	return p.caught(ctx)
}

// caught returns once the follower was told of everything that is in the view now.
func (p *Progress) caught(ctx context.Context) error {
	want, err := p.view.Changed(ctx)
	if err != nil {
		return err
	}
	for {
		p.mu.Lock()
		have, moved := p.rev, p.moved
		p.mu.Unlock()
		if have >= want {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// View is the view that is followed.
func (p *Progress) View() *View { return p.view }

// Reach returns once the follower was told of everything up to a revision of the view's log.
func (p *Progress) Reach(ctx context.Context, rev int64) error {
	select {
	case <-p.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := p.view.store.WaitFor(ctx, rev); err != nil {
		return err
	}
	return p.caught(ctx)
}
