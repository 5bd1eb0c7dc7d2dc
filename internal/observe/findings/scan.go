package findings

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Bounds of a scan.
const (
	mostScanned = 100000 // items looked at
	mostDecoded = 500    // objects decoded
)

// scanned is what a scan of a view has found. The next one looks only into items that have changed since.
type scanned struct {
	rev   int64           // of the newest change
	items []*store.Item   // of interest, or not readable, in the order of their keys
	objs  []engine.Object // of those items, the one that changed last first

	decoded map[*store.Item]engine.Object // of the same
}

// scan returns the objects of a view whose stored item may be of interest, those that changed last first: of many, these are the
// ones that may wait for somebody. It loads no view: what nobody has asked for is left where it is. The objects must not be changed.
func (l *look) scan(gr schema.GroupResource, maybe func(i *store.Item) bool) []engine.Object {
	ep, err := l.Objects.Endpoint(gr)
	if err != nil || ep.View() == nil {
		return nil
	}
	v := ep.View()
	if _, loaded := v.Len(); !loaded {
		return nil
	}
	rev, err := v.Changed(l.ctx)
	if err != nil {
		return nil
	}
	before := l.scans[gr]
	switch {
	case before == nil || before.rev > rev: // what is stored is another state
		before = &scanned{}
	case before.rev == rev:
		return before.objs
	}
	s, err := v.Snapshot(l.ctx)
	if err != nil {
		return nil
	}
	now := &scanned{rev: rev, decoded: map[*store.Item]engine.Object{}}
	err = now.find(l.ctx, s, before, maybe)
	now.decode(l.ctx, ep, before)
	if err == nil && l.ctx.Err() == nil { // what was cut short is looked at again
		l.scans[gr] = now
	}
	return now.objs
}

// find finds the items of interest. An item that was not of interest before, and has not changed, is not now.
func (n *scanned) find(ctx context.Context, s *store.Snapshot, before *scanned, maybe func(i *store.Item) bool) error {
	was, looked := before.items, 0
	return s.Ascend(ctx, store.Range{}, func(i *store.Item) bool {
		for len(was) > 0 && was[0].Key < i.Key {
			was = was[1:]
		}
		known := len(was) > 0 && was[0].Key == i.Key
		switch {
		case known && was[0] == i:
			n.items = append(n.items, i)
		case !known && i.Rev <= before.rev:
		case i.Err != nil || maybe(i):
			n.items = append(n.items, i)
		}
		looked++
		return looked < mostScanned
	})
}

// decode makes the objects of the items that changed last.
func (n *scanned) decode(ctx context.Context, ep *engine.Endpoint, before *scanned) {
	newest := slices.Clone(n.items)
	slices.SortFunc(newest, func(a, b *store.Item) int { return cmp.Compare(b.Rev, a.Rev) })
	for _, i := range newest[:min(len(newest), mostDecoded)] {
		obj, ok := before.decoded[i]
		if !ok {
			var err error
			if obj, err = ep.Decode(ctx, i); err != nil {
				continue
			}
		}
		n.objs, n.decoded[i] = append(n.objs, obj), obj
	}
}

// item returns the stored item of an object as it is now, without loading its view, and says if it is gone.
func (l *look) item(o v1alpha1.ObjectReference) (ep *engine.Endpoint, i *store.Item, gone bool) {
	ep, err := l.Objects.Endpoint(schema.GroupResource{Group: o.Group, Resource: o.Resource})
	if err != nil || ep.View() == nil {
		return nil, nil, true // nothing of its kind is served any more, or it is stored elsewhere
	}
	key := o.Name
	if namespaced(o) {
		key = o.Namespace + "/" + o.Name
	}
	read := ep.View().Latest
	if _, loaded := ep.View().Len(); loaded {
		read = ep.View().Get
	}
	if i, err = read(l.ctx, key); err != nil {
		return ep, nil, errors.Is(err, store.ErrNotFound)
	}
	return ep, i, false
}

// metaOf returns the metadata of a stored object. It converts nothing, so that it needs no webhook.
func metaOf(ctx context.Context, ep *engine.Endpoint, i *store.Item) *metav1.ObjectMeta {
	if i.Err != nil {
		return nil
	}
	if value := i.Value(); len(value) > 0 && value[0] == '{' {
		var part struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if json.Unmarshal(value, &part) != nil {
			return nil
		}
		return &part.Metadata
	}
	obj, err := ep.Decode(ctx, i)
	if err != nil {
		return nil
	}
	meta, ok := obj.(metav1.ObjectMetaAccessor)
	if !ok {
		return nil
	}
	m, _ := meta.GetObjectMeta().(*metav1.ObjectMeta)
	return m
}

// allItems is for scan: all objects may be of interest.
func allItems(*store.Item) bool { return true }
