package engine

import (
	"slices"

	"k8s.io/apimachinery/pkg/fields"
)

// Select splits a field selector into what Fields can answer, and what the resource's further terms ask of an object.
func (r *Resource) Select(s fields.Selector) (plain fields.Selector, terms []func(Object) bool, err error) {
	if s == nil || len(r.Terms) == 0 {
		return s, nil, nil
	}
	var rest fieldTerms
	for _, t := range termsOf(s) {
		read, ok := r.Terms[t.field]
		if !ok {
			rest = append(rest, t)
			continue
		}
		var asked []func(Object) bool
		for _, value := range t.values {
			holds, err := read(value)
			if err != nil {
				return nil, nil, err
			}
			asked = append(asked, holds)
		}
		terms = append(terms, func(obj Object) bool {
			return slices.ContainsFunc(asked, func(holds func(Object) bool) bool { return holds(obj) }) != t.not
		})
	}
	return rest, terms, nil
}
