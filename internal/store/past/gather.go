package past

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

const (
	// gatherFor is how long a change may wait for others to be recorded with it, unless somebody asks: to wake for each costs more than
	// to record it.
	gatherFor = 20 * time.Millisecond
	// gatherMost is how many bytes may wait, and gatherEvent what an event has beside its key and its value.
	gatherMost, gatherEvent = 4 << 20, 150
)

// follow records what happens in the log from now on, until ctx ends or something fails. A log may tell of each revision by itself, and waits until
// it was taken: so the changes that come are gathered, while others are recorded.
func (p *Past) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := gathering{come: make(chan struct{}, 1), full: make(chan struct{}, 1), taken: make(chan struct{})}
	recorded := make(chan error, 1)
	go func() {
		defer cancel()
		recorded <- p.recordAll(ctx, &g)
	}()
	err := p.Log.Watch(ctx, kv.Watch{Key: p.Prefix, Prefix: true, From: p.Reached() + 1, Ask: p.ask, Prev: !p.Near}, func(events []kv.Event, rev int64) error {
		return g.add(ctx, events, rev)
	})
	cancel()
	if failed := <-recorded; failed != nil && !errors.Is(failed, context.Canceled) {
		return failed
	}
	return err
}

// recordAll records what is gathered, until ctx ends.
func (p *Past) recordAll(ctx context.Context, g *gathering) error {
	for {
		select {
		case <-g.come:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-p.hurry:
		case <-g.full:
		case <-p.Clock.After(gatherFor):
		case <-ctx.Done():
			return ctx.Err()
		}
		events, rev := g.take()
		if err := p.record(ctx, events, rev); err != nil {
			return err
		}
	}
}

// gathering has what has come and is to be recorded.
type gathering struct {
	come, full chan struct{} // have a token if there is something, and if there is much

	mu     sync.Mutex
	events []kv.Event
	bytes  int
	rev    int64         // everything up to it has come
	taken  chan struct{} // closed when the events are taken
}

// add adds changes. If many wait, it waits until they are taken.
func (g *gathering) add(ctx context.Context, events []kv.Event, rev int64) error {
	g.mu.Lock()
	g.events, g.rev = append(g.events, events...), rev
	for n := range events {
		g.bytes += len(events[n].Key) + len(events[n].Value) + len(events[n].Prev.Value) + gatherEvent
	}
	full, taken := g.bytes >= gatherMost, g.taken
	g.mu.Unlock()
	put(g.come)
	if !full {
		return nil
	}
	put(g.full)
	select {
	case <-taken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gathering) take() (events []kv.Event, rev int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	events, rev = g.events, g.rev
	g.events, g.bytes = nil, 0
	close(g.taken)
	g.taken = make(chan struct{})
	return events, rev
}
