package crd

import (
	"maps"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// manyFields is the number of fields in one map from which an object is ordered. Below that, sorting costs more than it
// saves.
const manyFields = 2000

// ordered is a value whose maps are iterated in key order. Field management keeps sets of fields as sorted slices;
// inserting keys in random order takes quadratic time, ten seconds for 100,000 fields.
type ordered struct{ value.Value }

// valueOf returns the value of an object.
func valueOf(m map[string]any) value.Value {
	v := value.NewValueInterface(m)
	if wide(m) {
		return ordered{v}
	}
	return v
}

// wide reports whether a map in v has many fields.
func wide(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		if len(v) >= manyFields {
			return true
		}
		for _, e := range v {
			if wide(e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, wide)
	}
	return false
}

// AsMap is part of value.Value.
func (o ordered) AsMap() value.Map { return o.AsMapUsing(value.HeapAllocator) }

// AsMapUsing is part of value.Value.
func (o ordered) AsMapUsing(a value.Allocator) value.Map {
	m, ok := o.Unstructured().(map[string]any)
	if !ok {
		return o.Value.AsMapUsing(a)
	}
	return orderedMap{o.Value.AsMapUsing(a), m}
}

// AsList is part of value.Value.
func (o ordered) AsList() value.List { return o.AsListUsing(value.HeapAllocator) }

// AsListUsing is part of value.Value.
func (o ordered) AsListUsing(a value.Allocator) value.List {
	return orderedList{o.Value.AsListUsing(a)}
}

type orderedMap struct {
	value.Map
	fields map[string]any
}

// Get is part of value.Map.
func (m orderedMap) Get(key string) (value.Value, bool) { return m.GetUsing(value.HeapAllocator, key) }

// GetUsing is part of value.Map.
func (m orderedMap) GetUsing(_ value.Allocator, key string) (value.Value, bool) {
	v, ok := m.fields[key]
	if !ok {
		return nil, false
	}
	return ordered{value.NewValueInterface(v)}, true
}

// Iterate is part of value.Map.
func (m orderedMap) Iterate(f func(key string, v value.Value) bool) bool {
	return m.IterateUsing(value.HeapAllocator, f)
}

// IterateUsing is part of value.Map.
func (m orderedMap) IterateUsing(_ value.Allocator, f func(key string, v value.Value) bool) bool {
	for _, key := range slices.Sorted(maps.Keys(m.fields)) {
		if !f(key, ordered{value.NewValueInterface(m.fields[key])}) {
			return false
		}
	}
	return true
}

// Zip is part of value.Map.
func (m orderedMap) Zip(other value.Map, order value.MapTraverseOrder, f func(key string, l, r value.Value) bool) bool {
	return m.ZipUsing(value.HeapAllocator, other, order, f)
}

// ZipUsing is part of value.Map. Callers that need no order also get key order.
func (m orderedMap) ZipUsing(a value.Allocator, other value.Map, _ value.MapTraverseOrder, f func(key string, l, r value.Value) bool) bool {
	keys := slices.Collect(maps.Keys(m.fields))
	if other != nil {
		other.IterateUsing(a, func(key string, _ value.Value) bool {
			if _, ok := m.fields[key]; !ok {
				keys = append(keys, key)
			}
			return true
		})
	}
	slices.Sort(keys)
	for _, key := range keys {
		var l, r value.Value
		if v, ok := m.GetUsing(a, key); ok {
			l = v
		}
		if other != nil {
			if v, ok := other.GetUsing(a, key); ok {
				r = v
			}
		}
		if !f(key, l, r) {
			return false
		}
	}
	return true
}

type orderedList struct{ value.List }

// At is part of value.List.
func (l orderedList) At(i int) value.Value { return ordered{l.List.At(i)} }

// AtUsing is part of value.List. The allocator cannot reuse the result.
func (l orderedList) AtUsing(_ value.Allocator, i int) value.Value { return l.At(i) }

// Range is part of value.List.
func (l orderedList) Range() value.ListRange { return &orderedRange{list: l, at: -1} }

// RangeUsing is part of value.List.
func (l orderedList) RangeUsing(value.Allocator) value.ListRange { return l.Range() }

type orderedRange struct {
	list orderedList
	at   int
}

// Next is part of value.ListRange.
func (r *orderedRange) Next() bool { r.at++; return r.at < r.list.Length() }

// Item is part of value.ListRange.
func (r *orderedRange) Item() (int, value.Value) { return r.at, r.list.At(r.at) }
