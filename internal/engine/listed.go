package engine

import (
	"cmp"
	"iter"
	"slices"
)

// Listed is Resource.List of objects that are all there. A list that fits on one page keeps their order; several
// pages are in the order of names, which stays the same while they are asked for.
func Listed[T Object](all []T, p Page) iter.Seq[Object] {
	if p.Selects != nil {
		all = slices.DeleteFunc(slices.Clone(all), func(obj T) bool { return !p.Selects(obj) })
	}
	if p.After != "" || p.Limit > 0 && int64(len(all)) > p.Limit {
		all = slices.SortedFunc(slices.Values(all), func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	}
	return func(yield func(Object) bool) {
		for _, obj := range all {
			if p.After != "" && obj.GetName() <= p.After {
				continue
			}
			if !yield(obj) {
				return
			}
		}
	}
}
