package engine

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/kanzen-io/kanzen/internal/store"
)

// index is how a list finds its objects by a field or a label that has an index.
type index struct {
	by     store.Order
	values []string
}

// indexes are those by which a list may find its objects. It uses that of the field if the view has it. Otherwise it uses the label's index
// that finds the fewest objects.
type indexes struct {
	field  *index
	labels []index
}

// labelIndexes returns how to find what a selector matches.
func (c *call) labelIndexes(s labels.Selector) []index {
	if s == nil {
		return nil
	}
	var out []index
	required, _ := s.Requirements()
	for n := range required {
		if r := &required[n]; len(out) < maxLabelIndexes && requiresValue(r) {
			values := slices.Sorted(slices.Values(r.ValuesUnsorted()))
			out = append(out, index{c.view.ByLabel(r.Key()), slices.Compact(values)})
		}
	}
	return out
}

// maxLabelIndexes bounds the indexes that are tried for a selector.
const maxLabelIndexes = 4

// requiresValue says that only objects match that have a label, with one of some values.
func requiresValue(r *labels.Requirement) bool {
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		return !slices.Contains(r.ValuesUnsorted(), "")
	}
	return false
}

// fieldIndex returns how to find what a selector matches; nil: there is no index for it.
func (ep *Endpoint) fieldIndex(terms fieldTerms) *index {
	for _, field := range ep.R.Indexed {
		if values := terms.oneOf(field); values != nil && ep.ordersBy() {
			return &index{ep.orderBy(field), values}
		}
	}
	return nil
}

// ascend calls yield for the items of a range that an index finds, in order of their keys, or for all of the range if the view has no index
// of the snapshot's revision, or no room for one, or if there are items of which the index does not know whether they match.
func (x *indexes) ascend(ctx context.Context, v *store.View, snap *store.Snapshot, r store.Range, yield func(*store.Item) bool) error {
	if x.field != nil {
		all, err := v.Ordered(ctx, snap.Rev, x.field.by)
		if notFuture(err) != nil {
			return err
		}
		if err == nil && all != nil && !all.Unreadable() {
			return x.field.ascend(ctx, all, r, yield)
		}
	}
	if len(x.labels) == 0 {
		return snap.Ascend(ctx, r, yield)
	}
	return x.ascendLabels(ctx, v, snap, r, yield)
}

// ascendLabels is ascend by an index of labels. The view learns how many items were looked at for want of the others.
func (x *indexes) ascendLabels(ctx context.Context, v *store.View, snap *store.Snapshot, r store.Range, yield func(*store.Item) bool) error {
	var has []found
	var missing []store.Order
	for n := range x.labels {
		l := &x.labels[n]
		switch all, err := v.Ordered(ctx, snap.Rev, l.by); {
		case notFuture(err) != nil:
			return err
		case all == nil:
			missing = append(missing, l.by)
		case !all.Unreadable():
			has = append(has, found{l, all})
		}
	}
	looked := 0
	counting := func(i *store.Item) bool {
		looked++
		return yield(i)
	}
	fewest, err := rarest(ctx, has, r)
	switch {
	case err != nil:
	case fewest == nil:
		err = snap.Ascend(ctx, r, counting)
	default:
		err = fewest.ascend(ctx, fewest.all, r, counting)
	}
	for _, by := range missing {
		v.Missed(by, looked)
	}
	return err
}

// found is an index that a view has.
type found struct {
	*index
	all *store.Ordered
}

// rarest returns the index that finds the fewest items of a range, about; nil: there is none. It counts few more than those.
func rarest(ctx context.Context, has []found, r store.Range) (*found, error) {
	for most := 256; len(has) > 1; most *= 16 {
		for k := range has {
			f, n := &has[k], 0
			for _, value := range f.values {
				err := f.all.Equal(ctx, store.OrderValue(value), r, func(*store.Item) bool { n++; return n < most })
				if err != nil {
					return f, err
				}
			}
			if n < most {
				return f, nil
			}
		}
	}
	if len(has) == 0 {
		return nil, nil
	}
	return &has[0], nil
}

// ascend calls yield for the items of a range that the index finds, in order of their keys.
func (x *index) ascend(ctx context.Context, all *store.Ordered, r store.Range, yield func(*store.Item) bool) error {
	if len(x.values) == 1 {
		return all.Equal(ctx, store.OrderValue(x.values[0]), r, yield)
	}
	var some []*store.Item
	for _, value := range x.values {
		err := all.Equal(ctx, store.OrderValue(value), r, func(i *store.Item) bool {
			some = append(some, i)
			return true
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(some, func(a, b *store.Item) int { return strings.Compare(a.Key, b.Key) })
	for n, i := range some {
		if err := ended(ctx, n); err != nil {
			return err
		}
		if !yield(i) {
			break
		}
	}
	return nil
}
