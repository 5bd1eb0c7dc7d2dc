package catalog

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Follow calls set with each object of a built-in resource that there is and that
// comes or changes, and remove with those that go, until ctx ends. It calls caught
// when all that there was has been told. What cannot be read is removed: it grants
// nothing.
func (l *Live) Follow(ctx context.Context, gr schema.GroupResource, set func(metav1.Object), remove func(namespace, name string), caught func()) {
	ep, err := l.Endpoint(gr)
	if err != nil {
		panic(err) // a name misspelled by the caller
	}
	_ = ep.View().Follow(ctx, &follower{ep: ep, set: set, remove: remove, caught: caught})
}

// follower tells of one view.
type follower struct {
	ep     *engine.Endpoint
	set    func(metav1.Object)
	remove func(namespace, name string)
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
		r.remove(i.Namespace(), i.Name())
		return
	}
	r.set(obj)
}

// Caught is part of store.Follower.
func (r *follower) Caught(int64) { r.caught() }
