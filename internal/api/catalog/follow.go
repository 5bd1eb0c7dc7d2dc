package catalog

import (
	"context"
	"maps"
	"slices"

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
// until ctx ends. It returns at once, and calls ended after its last call. It calls caught after the existing objects, and whenever it has
// come further. An object that cannot be decoded, or that has another name or namespace than its key, is removed:
// it grants nothing, and is not taken for the one that it names. part, if it is not nil, cuts objects in protobuf, without their type,
// down to what is to be decoded, their names among it; changes of the rest are left out. Changes come with their revisions.
func (l *Live) Follow(ctx context.Context, ended func(), gr schema.GroupResource, part func(object []byte) []byte,
	set func(int64, metav1.Object), remove func(rev int64, namespace, name string), caught func(*store.Progress)) {
	ep, err := l.Endpoint(gr)
	if err != nil {
		panic(err) // the caller misspelled a name
	}
	p := store.NewProgress(ep.View())
	l.following(p)
	objects := engine.IndexOf[engine.Object](ep)
	if part != nil {
		objects = engine.PartsOf(ep, part)
	}
	objects.Join(ctx, func() { l.followed(p); ended() }, func(c store.Change[engine.Object]) {
		if c.Gone || c.Err != nil || c.Now.GetName() != c.Name() || c.Now.GetNamespace() != c.Namespace() {
			remove(c.Rev, c.Namespace(), c.Name())
			return
		}
		set(c.Rev, c.Now)
	}, func(rev int64) {
		p.Reached(rev)
		caught(p)
	})
}

func (l *Live) following(p *store.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followers[p] = true
}

func (l *Live) followed(p *store.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.followers, p)
}

// CatchUp waits until the catalog and everything that follows objects through it (authorizers) reflect all acknowledged
// writes.
func (l *Live) CatchUp(ctx context.Context) error {
	if err := l.Settle(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	all := slices.Collect(maps.Keys(l.followers))
	l.mu.Unlock()
	for _, p := range all {
		if err := p.CatchUp(ctx); err != nil {
			return err
		}
	}
	return nil
}
