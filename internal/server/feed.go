package server

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/catalog"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// feed keeps an index as the views of some resources are.
type feed struct {
	sources []source
	ready   chan struct{} // closed when all views have been read once
}

// source is one resource and what the index is told of it.
type source struct {
	resource schema.GroupResource
	set      func(engine.Object)
	remove   func(namespace, name string)
}

func newFeed(sources ...source) *feed { return &feed{sources: sources, ready: make(chan struct{})} }

// run follows the views until ctx ends.
func (f *feed) run(ctx context.Context, o *catalog.Raw) {
	var all, first sync.WaitGroup
	for _, s := range f.sources {
		ep, err := o.Endpoint(s.resource)
		if err != nil {
			panic(err) // a name misspelled in this package
		}
		all.Add(1)
		first.Add(1)
		go func() {
			defer all.Done()
			r := &follower{source: s, ep: ep, caught: sync.OnceFunc(first.Done)}
			defer r.caught()
			_ = ep.View().Follow(ctx, r)
		}()
	}
	first.Wait()
	close(f.ready)
	all.Wait()
}

// follower writes one view into an index.
type follower struct {
	source
	ep     *engine.Endpoint
	known  map[string]*store.Item
	caught func()
}

// Reset is part of store.Follower.
func (r *follower) Reset(items []*store.Item) {
	old := r.known
	r.known = map[string]*store.Item{}
	for _, i := range items {
		delete(old, i.Key)
		r.put(i)
	}
	for _, i := range old {
		r.remove(i.Namespace(), i.Name())
	}
}

// Change is part of store.Follower.
func (r *follower) Change(e *store.Event) {
	if e.Item == nil {
		delete(r.known, e.Prev.Key)
		r.remove(e.Prev.Namespace(), e.Prev.Name())
		return
	}
	r.put(e.Item)
}

func (r *follower) put(i *store.Item) {
	r.known[i.Key] = i
	obj, err := r.ep.Decode(i)
	if err != nil {
		// What cannot be read grants nothing.
		r.remove(i.Namespace(), i.Name())
		return
	}
	r.set(obj)
}

// Caught is part of store.Follower.
func (r *follower) Caught(int64) { r.caught() }
