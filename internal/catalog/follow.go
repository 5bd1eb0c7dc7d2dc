package catalog

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Index returns the objects of a resource that is always served, decoded once for a revision. T is their Go type.
func Index[T engine.Object](l *Live, gr schema.GroupResource) *store.Index[T] {
	ep, err := l.Endpoint(gr)
	if err != nil {
		panic(err) // the caller misspelled a name
	}
	return engine.IndexOf[T](ep)
}

// Follow calls set for each existing, added or changed object of a built-in resource, and remove for each deleted one,
// until ctx ends. It calls caught after the existing objects. An object that cannot be decoded is removed: it grants
// nothing.
func (l *Live) Follow(ctx context.Context, gr schema.GroupResource, set func(metav1.Object), remove func(namespace, name string), caught func()) {
	Index[engine.Object](l, gr).Follow(ctx, func(c store.Change[engine.Object]) {
		if c.Gone || c.Err != nil {
			remove(c.Namespace(), c.Name())
			return
		}
		set(c.Now)
	}, func(int64) { caught() })
}
