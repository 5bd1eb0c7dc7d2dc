package fieldmanager

import (
	"cmp"
	"math"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// element is a step from an object to one of its fields or items.
type element struct {
	kind elementKind
	name string // of a field
	// key is what selects an item of a list: the fields of its key, sorted by name, or its value or its index as a key
	// without name.
	key []keyField
}

type elementKind byte

// The order of the kinds is that of the elements.
const (
	byField elementKind = iota
	byKey
	byValue
	byIndex
)

type keyField struct {
	name  string
	value scalar
}

// scalar is a value in a key.
type scalar struct {
	kind scalarKind
	text string
	n    int64 // of a number; of a boolean 0 or 1
}

type scalarKind byte

// The order of the kinds is that of the values.
const (
	isNumber scalarKind = iota
	isText
	isBoolean
)

// maxExact is up to where integers are the same as floating point numbers, as which they are read back.
const maxExact = 1 << 53

func (a element) compare(b element) int {
	if a.kind != b.kind {
		return cmp.Compare(a.kind, b.kind)
	}
	if a.kind == byField {
		return strings.Compare(a.name, b.name)
	}
	for i := range min(len(a.key), len(b.key)) {
		x, y := &a.key[i], &b.key[i]
		if c := strings.Compare(x.name, y.name); c != 0 {
			return c
		}
		if c := x.value.compare(y.value); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a.key), len(b.key))
}

func (a scalar) compare(b scalar) int {
	switch {
	case a.kind != b.kind:
		return cmp.Compare(a.kind, b.kind)
	case a.kind == isText:
		return strings.Compare(a.text, b.text)
	}
	return cmp.Compare(a.n, b.n)
}

// ofLibrary turns an element of the library into one of ours. It reports false for one that has no exact form.
func ofLibrary(pe fieldpath.PathElement) (element, bool) {
	switch {
	case pe.FieldName != nil:
		return element{name: *pe.FieldName}, true
	case pe.Key != nil:
		e := element{kind: byKey}
		for _, f := range *pe.Key {
			s, ok := scalarOf(f.Value)
			if !ok {
				return e, false
			}
			e.key = append(e.key, keyField{f.Name, s})
		}
		return e, true
	case pe.Value != nil:
		s, ok := scalarOf(*pe.Value)
		return element{kind: byValue, key: []keyField{{value: s}}}, ok
	case pe.Index != nil:
		return element{kind: byIndex, key: []keyField{{value: scalar{n: int64(*pe.Index)}}}}, true
	}
	return element{}, false
}

func scalarOf(v value.Value) (scalar, bool) {
	switch {
	case v.IsString():
		return scalar{kind: isText, text: v.AsString()}, true
	case v.IsInt():
		return exact(v.AsInt())
	case v.IsFloat():
		return exactFloat(v.AsFloat())
	case v.IsBool():
		return truth(v.AsBool()), true
	}
	return scalar{}, false
}

func exact(n int64) (scalar, bool) {
	return scalar{n: n}, -maxExact < n && n < maxExact
}

func exactFloat(f float64) (scalar, bool) {
	n := int64(f)
	if float64(n) != f || n == 0 && math.Signbit(f) {
		return scalar{}, false
	}
	return exact(n)
}

func truth(b bool) scalar {
	s := scalar{kind: isBoolean}
	if b {
		s.n = 1
	}
	return s
}

// library turns an element into one of the library.
func (a element) library() fieldpath.PathElement {
	switch a.kind {
	case byField:
		return fieldpath.FieldNameElement(a.name)
	case byKey:
		fields := make(value.FieldList, len(a.key))
		for i, f := range a.key {
			fields[i] = value.Field{Name: f.name, Value: f.value.library()}
		}
		return fieldpath.PathElement{Key: &fields}
	case byValue:
		return fieldpath.ValueElement(a.key[0].value.library())
	}
	return fieldpath.IndexElement(int(a.key[0].value.n))
}

func (a scalar) library() value.Value {
	switch a.kind {
	case isText:
		return value.NewValueInterface(a.text)
	case isBoolean:
		return value.NewValueInterface(a.n != 0)
	}
	return value.NewValueInterface(a.n)
}
