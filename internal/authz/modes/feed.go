package modes

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Follow calls set with each object of a resource that there is and that comes or
// changes, and remove with those that go, until ctx ends. It calls caught when all
// that there was has been told. An object that cannot be read is removed.
type Follow func(ctx context.Context, resource schema.GroupResource, set func(metav1.Object), remove func(namespace, name string), caught func())

// feed keeps an index as the objects of some resources are.
type feed struct {
	sources []source
	ready   chan struct{} // closed when all resources have been read once
}

// source is one resource and what the index is told of it.
type source struct {
	resource schema.GroupResource
	set      func(metav1.Object)
	remove   func(namespace, name string)
}

func newFeed(sources ...source) *feed { return &feed{sources: sources, ready: make(chan struct{})} }

// run follows the resources until ctx ends.
func (f *feed) run(ctx context.Context, follow Follow) {
	var all, first sync.WaitGroup
	for _, s := range f.sources {
		first.Add(1)
		all.Go(func() {
			caught := sync.OnceFunc(first.Done)
			defer caught()
			follow(ctx, s.resource, s.set, s.remove, caught)
		})
	}
	first.Wait()
	close(f.ready)
	all.Wait()
}
