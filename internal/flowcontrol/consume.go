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

// Consumer applies the stored FlowSchemas and PriorityLevelConfigurations to a Controller when they change.
type Consumer struct {
	Controller      *Controller
	Levels, Schemas *engine.Endpoint
	// Ready is called when the objects are applied for the first time. Optional.
	Ready func()

	mu      sync.Mutex
	levels  map[string]*flowcontrolv1.PriorityLevelConfiguration // guarded by mu
	schemas map[string]*flowcontrolv1.FlowSchema                 // guarded by mu
}

// Run watches the objects and adjusts seats until ctx ends.
func (c *Consumer) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(ctx) // so that a panic below does not block on the other goroutines
	defer stop()
	wg.Go(func() {
		_ = c.Levels.View().Follow(ctx, follower[*flowcontrolv1.PriorityLevelConfiguration]{c, c.Levels, &c.levels})
	})
	wg.Go(func() {
		_ = c.Schemas.View().Follow(ctx, follower[*flowcontrolv1.FlowSchema]{c, c.Schemas, &c.schemas})
	})
	for {
		select {
		case <-c.Controller.clock.After(adjustEvery):
			c.Controller.Adjust()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// change runs f, which updates the known objects, and configures the Controller if f reports a change, once both kinds
// have been read. A change of status does not count.
func (c *Consumer) change(f func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !f() {
		return
	}
	if c.levels == nil || c.schemas == nil { // not all objects have been read
		return
	}
	c.Controller.Configure(slices.Collect(maps.Values(c.levels)), slices.Collect(maps.Values(c.schemas)))
	if c.Ready != nil {
		c.Ready()
	}
}

// follower keeps the objects of one kind for the Consumer.
type follower[T engine.Object] struct {
	consumer *Consumer
	endpoint *engine.Endpoint
	objects  *map[string]T // by name; guarded by the consumer's mu
}

// Reset is part of store.Follower.
func (f follower[T]) Reset(items []*store.Item) {
	f.consumer.change(func() bool {
		*f.objects = map[string]T{}
		for _, i := range items {
			f.put(i)
		}
		return true
	})
}

// Change is part of store.Follower.
func (f follower[T]) Change(e *store.Event) {
	f.consumer.change(func() bool {
		if e.Item == nil {
			delete(*f.objects, e.Prev.Name())
			return true
		}
		return f.put(e.Item)
	})
}

func (f follower[T]) put(i *store.Item) bool {
	decoded, err := f.endpoint.Decode(i)
	if err != nil {
		return false // keep the previous version
	}
	obj := decoded.(T)
	old, had := (*f.objects)[i.Name()]
	(*f.objects)[i.Name()] = obj
	return !had || old.GetUID() != obj.GetUID() || old.GetGeneration() != obj.GetGeneration()
}

// Caught is part of store.Follower.
func (f follower[T]) Caught(int64) {}
