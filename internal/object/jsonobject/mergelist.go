package jsonobject

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
)

// This file merges lists as strategic merge patches do: item by item, told apart by a key.

// list is a field whose items are merged if they have the same key. Without MergeKey they are texts, and their own keys.
type list struct{ *apitype.Field }

// itemKey tells the items of a list apart: by a text or a number.
type itemKey struct {
	text   string
	number int64
}

// orderDirective begins the name of a member that says in which order the items of a list shall be.
const orderDirective = "$setElementOrder/"

// order is what such a member says.
type order struct {
	of   list
	keys []itemKey
	kept bool // while the list was merged
}

func ordered(orders []order, f *apitype.Field) bool {
	return slices.ContainsFunc(orders, func(o order) bool { return o.of.Field == f })
}

// inOrder gives the lists of a struct the orders that were not kept while they were merged.
func inOrder(orders []order, v reflect.Value) bool {
	for _, o := range orders {
		if f := o.of.In(v); !o.kept {
			was, ok := o.of.keys(f)
			if !ok || f.Len() == 0 || !o.of.reorder(f, o.keys, was) {
				return false
			}
		}
	}
	return true
}

// keyOf returns the key of an item; false: it has none.
func (l list) keyOf(item reflect.Value) (itemKey, bool) {
	if l.MergeKey != nil {
		item = l.MergeKey.In(item)
	}
	var k itemKey
	if item.Kind() == reflect.String {
		k.text = item.String()
	} else {
		k.number = item.Int()
	}
	return k, k != itemKey{}
}

// keys returns the keys of all items; false: there is an item without one, or one like another.
func (l list) keys(v reflect.Value) ([]itemKey, bool) {
	keys := make([]itemKey, v.Len())
	for i := range keys {
		var ok bool
		if keys[i], ok = l.keyOf(v.Index(i)); !ok {
			return nil, false
		}
	}
	return keys, distinct(keys)
}

// few is how many keys are compared with each other one by one.
const few = 16

func distinct(keys []itemKey) bool {
	if len(keys) > few {
		return len(places(keys)) == len(keys)
	}
	for i, k := range keys {
		if slices.Contains(keys[:i], k) {
			return false
		}
	}
	return true
}

func places(keys []itemKey) map[itemKey]int {
	at := make(map[itemKey]int, len(keys))
	for i, k := range keys {
		at[k] = i
	}
	return at
}

// finder returns a function that says where a key is among distinct keys, -1 if it is not.
func finder(keys []itemKey) func(itemKey) int {
	if len(keys) <= few {
		return func(k itemKey) int { return slices.Index(keys, k) }
	}
	at := places(keys)
	return func(k itemKey) int {
		if i, ok := at[k]; ok {
			return i
		}
		return -1
	}
}

// keyHere reads the key of the item that is read next, which stays so.
func (d *decoder) keyHere(l list) (k itemKey, ok bool) {
	if l.MergeKey == nil {
		return d.keyValue()
	}
	begin := d.at
	found := 0
	if d.next() != '{' || !d.members(func(name string) bool {
		if name != l.MergeKey.Name {
			return d.skip()
		}
		found++
		k, ok = d.keyValue()
		return ok
	}) {
		return k, false
	}
	d.at = begin
	return k, found == 1
}

// keyValue reads the value of a key.
func (d *decoder) keyValue() (itemKey, bool) {
	if d.next() == '"' {
		s, ok := d.string()
		return itemKey{text: s}, ok && s != ""
	}
	text, float, ok := d.numeral()
	if !ok || float {
		return itemKey{}, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return itemKey{number: n}, err == nil && n != 0
}

// merge merges the list that is read next. Its items come in the order of the patch or, if keys is not nil, in that of keys. The library
// refuses to give an order to no items.
func (d *decoder) merge(l list, v reflect.Value, keys []itemKey) bool {
	was, ok := l.keys(v)
	if !ok || d.next() != '[' {
		return false
	}
	place := finder(was)
	named := []itemKey{}
	ok = d.items(func() bool {
		k, ok := d.keyHere(l)
		if !ok {
			return false
		}
		named = append(named, k)
		at := place(k)
		if at >= 0 && l.MergeKey == nil {
			return true
		}
		if at < 0 {
			at = v.Len()
			v.Grow(1)
			v.SetLen(at + 1)
			v.Index(at).SetZero()
		}
		if l.MergeKey == nil {
			v.Index(at).SetString(k.text)
			return true
		}
		return d.value(l.Type.Elem, v.Index(at))
	})
	if !ok || !distinct(named) {
		return false
	}
	if v.IsNil() { // the patch has an empty list
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	}
	if keys == nil {
		return l.reorder(v, named, was)
	}
	return v.Len() > 0 && within(named, keys) && l.reorder(v, keys, was)
}

// within says that the keys are among others, in their order.
func within(keys, others []itemKey) bool {
	for _, k := range others {
		if len(keys) > 0 && keys[0] == k {
			keys = keys[1:]
		}
	}
	return len(keys) == 0
}

// reorder gives the items of a list the order of keys. Items that are not among keys stay in the order in which they were, each before
// the first item that was behind it.
func (l list) reorder(v reflect.Value, keys, was []itemKey) bool {
	now, ok := l.keys(v)
	if !ok {
		return false
	}
	if len(now) < 2 {
		return true
	}
	rank, place := finder(keys), finder(was)
	var others, named []int
	for i, k := range now {
		if rank(k) < 0 {
			others = append(others, i)
		} else {
			named = append(named, i)
		}
	}
	slices.SortFunc(others, func(a, b int) int { return cmp.Compare(place(now[a]), place(now[b])) })
	slices.SortFunc(named, func(a, b int) int { return cmp.Compare(rank(now[a]), rank(now[b])) })
	sorted := make([]int, 0, len(now))
	for len(others) > 0 && len(named) > 0 {
		other, next := place(now[others[0]]), place(now[named[0]])
		if other >= 0 && next >= 0 && other < next {
			sorted, others = append(sorted, others[0]), others[1:]
		} else {
			sorted, named = append(sorted, named[0]), named[1:]
		}
	}
	sorted = append(append(sorted, others...), named...)
	if slices.IsSorted(sorted) {
		return true
	}
	out := reflect.MakeSlice(v.Type(), len(now), len(now))
	for to, from := range sorted {
		out.Index(to).Set(v.Index(from))
	}
	v.Set(out)
	return true
}

// order reads the directive for the order of a list.
func (d *decoder) order(f *apitype.Field) (o order, ok bool) {
	l := list{f}
	if !f.Merge || f.Unusual || d.next() != '[' {
		return o, false
	}
	o.of, o.keys = l, []itemKey{}
	ok = d.items(func() bool {
		k, ok := d.keyHere(l)
		if !ok {
			return false
		}
		o.keys = append(o.keys, k)
		return f.MergeKey == nil || d.skipOnly(f.MergeKey.Name)
	})
	return o, ok && distinct(o.keys)
}

// skipOnly passes over an object that has one member.
func (d *decoder) skipOnly(member string) bool {
	return d.next() == '{' && d.members(func(name string) bool { return name == member && d.skip() })
}
