package catalog

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Follow calls set for each existing, added or changed object of a built-in resource, and remove for each deleted one,
// until ctx ends. It calls caught after the existing objects. An object that cannot be decoded is removed: it grants
// nothing.
func (l *Live) Follow(ctx context.Context, gr schema.GroupResource, set func(metav1.Object), remove func(namespace, name string), caught func()) {
	ep, err := l.Endpoint(gr)
	if err != nil {
		panic(err) // the caller misspelled a name
	}
	_ = ep.View().Follow(ctx, &follower{ep: ep, set: set, remove: remove, caught: caught})
}

// follower passes on the events of one view.
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
