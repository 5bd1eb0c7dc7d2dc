package store

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// LabelFilter is a label selector that finds out about most items that do not
// match without their labels: a list by label looks at every item of a view, and
// an item's labels are a map, which takes several cache misses and some hundred
// bytes. The zero LabelFilter matches everything.
type LabelFilter struct {
	selector labels.Selector
	needs    labelBits
}

// NewLabelFilter makes a filter of a selector; nil selects everything.
func NewLabelFilter(s labels.Selector) LabelFilter {
	if s == nil || s.Empty() {
		return LabelFilter{}
	}
	f := LabelFilter{selector: s}
	terms, _ := s.Requirements()
	for _, t := range terms {
		switch values := t.ValuesUnsorted(); {
		case len(values) != 1:
		case t.Operator() == selection.Equals, t.Operator() == selection.DoubleEquals, t.Operator() == selection.In:
			f.needs |= bitsOf(t.Key(), values[0])
		}
	}
	return f
}

// All says that the filter matches everything.
func (f LabelFilter) All() bool { return f.selector == nil }

// MatchLabels says whether an item's labels match a filter.
func (v *View) MatchLabels(i *Item, f LabelFilter) (bool, error) {
	if f.All() {
		return true, nil
	}
	if f.needs != 0 {
		bits, err := v.labelBits(i)
		if err != nil || bits&f.needs != f.needs {
			return false, err
		}
	}
	l, err := v.Labels(i)
	return err == nil && f.selector.Matches(l), err
}

// ByLabel is an index of the values of a label.
func (v *View) ByLabel(key string) Order {
	return Order{Name: "label " + key, Index: true, Value: func(i *Item) string {
		set, err := v.readLabels(i)
		if err != nil {
			return Unreadable
		}
		return OrderValue(set[key])
	}}
}

// labelBits is a set of labels in a word: each label has two of the lower 63
// bits. Objects that have a label have its bits; a few others have them too. The
// upper bit says that the word was made.
type labelBits = uint64

const bitsMade labelBits = 1 << 63

func bitsOf(key, value string) labelBits {
	h := uint64(14695981039346656037) // FNV-1a
	for n := range len(key) {
		h = (h ^ uint64(key[n])) * 1099511628211
	}
	h = (h ^ '=') * 1099511628211
	for n := range len(value) {
		h = (h ^ uint64(value[n])) * 1099511628211
	}
	return 1<<(h>>8%63) | 1<<(h>>40%63)
}

// labelBits returns an item's labels as bits. It does not keep the labels
// themselves, which few items of a list are asked for.
func (v *View) labelBits(i *Item) (labelBits, error) {
	if bits := i.labelBits.Load(); bits != 0 {
		return bits, nil
	}
	set, err := v.readLabels(i)
	if err != nil {
		return 0, err
	}
	bits := bitsMade
	for key, value := range set {
		bits |= bitsOf(key, value)
	}
	i.labelBits.Store(bits)
	return bits, nil
}

// readLabels returns an item's labels, and keeps none that are not kept yet.
func (v *View) readLabels(i *Item) (labels.Set, error) {
	if l := i.labels.Load(); l != nil {
		return *l, nil
	}
	if i.Err != nil {
		return nil, i.Err
	}
	set, err := v.kind.Labels(i.peek())
	return set, v.of(i, err)
}
