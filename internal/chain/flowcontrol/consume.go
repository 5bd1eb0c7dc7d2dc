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
	levels  known[*flowcontrolv1.PriorityLevelConfiguration] // guarded by mu
	schemas known[*flowcontrolv1.FlowSchema]                 // guarded by mu
	applied bool                                             // guarded by mu
}

// Run watches the objects and adjusts seats until ctx ends.
func (c *Consumer) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(ctx) // so that a panic below does not block on the other goroutines
	defer stop()
	wg.Add(2)
	consume(ctx, wg.Done, c, c.Levels, &c.levels)
	consume(ctx, wg.Done, c, c.Schemas, &c.schemas)
	for {
		select {
		case <-c.Controller.clock.After(adjustEvery):
			c.Controller.Adjust()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// known is the objects of one kind as they were last read.
type known[T engine.Object] struct {
	objects map[string]T // by name
	read    bool         // all of them
	changed bool         // since they were last applied
}

// consume keeps the objects of one kind until ctx ends, and applies what has changed once
// both kinds have been read.
func consume[T engine.Object](ctx context.Context, ended func(), c *Consumer, ep *engine.Endpoint, k *known[T]) {
	engine.IndexOf[T](ep).Join(ctx, ended, func(change store.Change[T]) {
		c.mu.Lock()
		defer c.mu.Unlock()
		k.change(change)
	}, func(int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		k.read = true
		c.apply()
	})
}

// change keeps what has become of an object. One that cannot be decoded stays
// as it was, and a change of status does not count.
func (k *known[T]) change(c store.Change[T]) {
	if c.Err != nil {
		return
	}
	if k.objects == nil {
		k.objects = map[string]T{}
	}
	old, had := k.objects[c.Name()]
	if c.Gone {
		delete(k.objects, c.Name())
		k.changed = k.changed || had
		return
	}
	k.objects[c.Name()] = c.Now
	k.changed = k.changed || !had || old.GetUID() != c.Now.GetUID() || old.GetGeneration() != c.Now.GetGeneration()
}

// apply configures the Controller with what has been read, if that is all there
// is and something has changed. Its caller holds mu.
func (c *Consumer) apply() {
	if !c.levels.read || !c.schemas.read || !c.levels.changed && !c.schemas.changed && c.applied {
		return
	}
	c.levels.changed, c.schemas.changed, c.applied = false, false, true
	c.Controller.Configure(slices.Collect(maps.Values(c.levels.objects)), slices.Collect(maps.Values(c.schemas.objects)))
	if c.Ready != nil {
		c.Ready()
	}
}
