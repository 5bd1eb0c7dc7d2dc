package jsonobject

import (
	"bytes"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
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

// MergeInto applies a patch to what the pointer into points to. What the patch does not name is not looked at. The outcome is that of
// merging documents, as kube-apiserver does, and decoding what comes out. False: the patch has an error or something that is rare, such as
// a directive other than $setElementOrder; into is spoilt then, and the documents shall be merged. The strings share one copy of the patch.
func MergeInto(kind Patch, patch []byte, into any) bool {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return false
	}
	d := decoder{lexer: lexer{data: string(patch)}, raw: patch, patch: kind}
	return apitype.Of(v.Type()).Merges() && d.document(v)
}

// change reads what a patch has for a field.
func (d *decoder) change(f *apitype.Field, v reflect.Value, orders []order) bool {
	switch {
	case f.Unusual, d.next() == 'n' && ordered(orders, f):
		return false
	case d.next() == 'n':
		v.SetZero()
		return d.word("null")
	case f.Merge && d.patch == StrategicMergePatch:
		for n := range orders {
			if orders[n].of.Field == f {
				orders[n].kept = true
				return d.merge(list{f}, v, orders[n].keys)
			}
		}
		return d.merge(list{f}, v, nil)
	case !f.Type.Merges():
		v.SetZero()
	}
	return d.value(f.Type, v)
}

// mergeMap merges an object into a map whose values are replaced. Maps of others are left to the library, which does not merge all of them.
func (d *decoder) mergeMap(t *apitype.Type, v reflect.Value) bool {
	if d.next() != '{' || t.Elem.Merges() || t.Elem.Kind == apitype.List {
		return false
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(t.Go))
	}
	seen := map[string]struct{}{}
	key, val := reflect.New(t.Go.Key()).Elem(), reflect.New(t.Elem.Go).Elem()
	return d.members(func(name string) bool {
		if _, twice := seen[name]; twice || strings.HasPrefix(name, "$") {
			return false
		}
		seen[name] = struct{}{}
		key.SetString(name)
		if d.next() == 'n' {
			v.SetMapIndex(key, reflect.Value{})
			return d.word("null")
		}
		val.SetZero()
		ok := d.value(t.Elem, val)
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
