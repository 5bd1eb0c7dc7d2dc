package jsonobject

import (
	"bytes"
	"reflect"
	"strings"
	"unicode/utf8"
)

// A Patch says how a document that is merged into a value is meant.
type Patch int

const (
	noPatch Patch = iota
	// MergePatch is a JSON merge patch (RFC 7386): objects are merged, all else is replaced.
	MergePatch
	// StrategicMergePatch also merges the lists whose field has a patchStrategy that says so, item by item.
	StrategicMergePatch
)

// Merge applies a patch to what the pointer into points to. What the patch does not name is not looked at. The outcome is that of
// merging documents, as kube-apiserver does, and decoding what comes out. False: the patch has an error or something that is rare, such as
// a directive other than $setElementOrder; into is spoilt then, and the documents shall be merged. The strings share one copy of the patch.
func (t *Types) Merge(kind Patch, patch []byte, into any) bool {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return false
	}
	v = v.Elem()
	p := t.of(v.Type())
	if p.decode == nil || !p.merges {
		return false
	}
	r := typedReader{reader: reader{data: string(patch)}, raw: patch, patch: kind}
	return r.next() == '{' && p.decode(&r, v) && r.next() == 0 && r.at == len(r.data)
}

// mergesInto says that a patch for a value of the type is merged into it and does not replace it.
func mergesInto(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer:
		return mergesInto(t.Elem())
	case reflect.Map:
		return true
	}
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(unmarshaler)
}

// change reads what a patch has for a field.
func (r *typedReader) change(m *member, f reflect.Value, orders []order) bool {
	switch {
	case m.opaque, r.next() == 'n' && ordered(orders, m):
		return false
	case r.next() == 'n':
		f.SetZero()
		return r.word("null")
	case m.list != nil && r.patch == StrategicMergePatch:
		for n := range orders {
			if orders[n].of == m {
				orders[n].kept = true
				return m.list.merge(r, f, orders[n].keys)
			}
		}
		return m.list.merge(r, f, nil)
	case !m.plan.merges:
		f.SetZero()
	}
	return m.plan.decode(r, f)
}

// mergeMap merges an object into a map whose values are replaced. Maps of others are left to the library, which does not merge all of them.
func (r *typedReader) mergeMap(elem *plan, v reflect.Value) bool {
	lists := v.Type().Elem().Kind() == reflect.Slice && v.Type().Elem().Elem().Kind() != reflect.Uint8
	if r.next() != '{' || elem.merges || lists {
		return false
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	seen := map[string]struct{}{}
	key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
	return r.members(func(name string) bool {
		if _, twice := seen[name]; twice || strings.HasPrefix(name, "$") {
			return false
		}
		seen[name] = struct{}{}
		key.SetString(name)
		if r.next() == 'n' {
			v.SetMapIndex(key, reflect.Value{})
			return r.word("null")
		}
		val.SetZero()
		ok := elem.decode(r, val)
		v.SetMapIndex(key, val)
		return ok
	})
}

// simple says that a value which a type decodes itself is decoded alike from what a patch says and from what the library makes of that
// first: a short number, or a text without anything that is written in two ways.
func simple(value []byte) bool {
	if len(value) == 0 {
		return false
	}
	if value[0] != '"' {
		return len(value) < 18 && value[0] != '-' && !bytes.ContainsFunc(value, func(c rune) bool { return c < '0' || c > '9' })
	}
	return !bytes.ContainsFunc(value, func(c rune) bool { return c < ' ' || c >= utf8.RuneSelf || strings.ContainsRune(`\<>&`, c) })
}
