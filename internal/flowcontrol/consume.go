package flowcontrol

import (
	"context"
	"maps"
	"slices"
	"sync"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Consumer puts the stored objects into force in a Controller, as they change.
type Consumer struct {
	Controller      *Controller
	Levels, Schemas *engine.Endpoint
	// Ready is called when the objects are first in force. Optional.
	Ready func()

	mu      sync.Mutex
	levels  map[string]*flowcontrolv1.PriorityLevelConfiguration // guarded by mu
	schemas map[string]*flowcontrolv1.FlowSchema                 // guarded by mu
}

// Run follows the objects, and moves seats, until ctx ends.
func (c *Consumer) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(ctx) // so that a panic below is not waited with
	defer stop()
	wg.Go(func() { _ = c.Levels.View().Follow(ctx, &levelFollower{c}) })
	wg.Go(func() { _ = c.Schemas.View().Follow(ctx, &schemaFollower{c}) })
	for {
		select {
		case <-c.Controller.clock.After(adjustEvery):
			c.Controller.Adjust()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// change changes what is known of the objects and puts it into force, once
// both kinds have been read.
// f says whether there is anything new: a status is not.
func (c *Consumer) change(f func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !f() {
		return
	}
	if c.levels == nil || c.schemas == nil { // not all has been read
		return
	}
	c.Controller.Configure(slices.Collect(maps.Values(c.levels)), slices.Collect(maps.Values(c.schemas)))
	if c.Ready != nil {
		c.Ready()
	}
}

type levelFollower struct{ *Consumer }

// Reset is part of store.Follower.
func (f *levelFollower) Reset(items []*store.Item) {
	f.change(func() bool {
		f.levels = map[string]*flowcontrolv1.PriorityLevelConfiguration{}
		for _, i := range items {
			f.put(i)
		}
		return true
	})
}

// Change is part of store.Follower.
func (f *levelFollower) Change(e *store.Event) {
	f.change(func() bool {
		if e.Item == nil {
			delete(f.levels, e.Prev.Name())
			return true
		}
		return f.put(e.Item)
	})
}

func (f *levelFollower) put(i *store.Item) bool {
	obj, err := f.Levels.Decode(i)
	if err != nil {
		return false // what was in force stays
	}
	old := f.levels[i.Name()]
	f.levels[i.Name()] = obj.(*flowcontrolv1.PriorityLevelConfiguration)
	return old == nil || old.UID != obj.GetUID() || old.Generation != obj.GetGeneration()
}

// Caught is part of store.Follower.
func (f *levelFollower) Caught(int64) {}

type schemaFollower struct{ *Consumer }

// Reset is part of store.Follower.
func (f *schemaFollower) Reset(items []*store.Item) {
	f.change(func() bool {
		f.schemas = map[string]*flowcontrolv1.FlowSchema{}
		for _, i := range items {
			f.put(i)
		}
		return true
	})
}

// Change is part of store.Follower.
func (f *schemaFollower) Change(e *store.Event) {
	f.change(func() bool {
		if e.Item == nil {
			delete(f.schemas, e.Prev.Name())
			return true
		}
		return f.put(e.Item)
	})
}

func (f *schemaFollower) put(i *store.Item) bool {
	obj, err := f.Schemas.Decode(i)
	if err != nil {
		return false // what was in force stays
	}
	old := f.schemas[i.Name()]
	f.schemas[i.Name()] = obj.(*flowcontrolv1.FlowSchema)
	return old == nil || old.UID != obj.GetUID() || old.Generation != obj.GetGeneration()
}

// Caught is part of store.Follower.
func (f *schemaFollower) Caught(int64) {}
