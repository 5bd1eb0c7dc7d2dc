package modes

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Follow calls set for each existing, added or changed object of a resource, and remove for each deleted one, until ctx
// ends. It calls caught after the existing objects. An object that cannot be decoded is removed. part, if it is not nil, cuts
// objects in protobuf, without their type, down to what is to be decoded; changes of the rest are left out.
type Follow func(ctx context.Context, resource schema.GroupResource, part func(object []byte) []byte,
	set func(metav1.Object), remove func(namespace, name string), caught func())

// feed keeps an index up to date with the objects of some resources.
type feed struct {
	sources []source
	ready   chan struct{} // closed when all resources have been read once
}

// source is one resource and the funcs that pass its objects to the index.
type source struct {
	resource schema.GroupResource
	set      func(metav1.Object)
	remove   func(namespace, name string)
	part     func(object []byte) []byte // nil: objects are decoded whole
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
			follow(ctx, s.resource, s.part, s.set, s.remove, caught)
		})
	}
	first.Wait()
	close(f.ready)
	all.Wait()
}
