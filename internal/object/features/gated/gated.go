// Package gated drops the fields that belong to feature gates which are off. As in kube-apiserver, an object that has a field
// of a gate already keeps what it has of that gate.
package gated

import (
	_ "embed"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
)

//go:generate sh -c "go run ./gen > fields.txt"

//go:embed fields.txt
var table string

// key names a field of a Go type: k8s.io/api/core/v1.PodSpec.EvictionResponders.
type key struct{ pkg, typ, field string }

// belongs returns the gates of each field that has some.
var belongs = sync.OnceValue(func() map[key][]string {
	out := map[key][]string{}
	for line := range strings.Lines(table) {
		w := strings.Fields(line)
		out[key{"k8s.io/api/" + w[0], w[1], w[2]}] = strings.Split(w[3], ",")
	}
	return out
})

// Gates returns the gates that have fields.
func Gates() []string {
	var out []string
	for _, gates := range belongs() {
		out = append(out, gates...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Dropper drops fields from objects of one type.
type Dropper struct {
	gates []string // those that are off; their place is the bit of a field in a step
	root  *node
}

// node is a type of which something must be looked at.
type node struct {
	t     *apitype.Type
	steps []step
	elem  *node // of a pointer, list or map
}

// step is a field of a struct: it belongs to a gate, or leads to those that do.
type step struct {
	at   uintptr
	t    *apitype.Type
	gate int // -1: none
	to   *node
}

// For returns what drops the fields of a pointer to a struct; nil: there are none.
func For(pointer reflect.Type, off func(gate string) bool) *Dropper {
	d := &Dropper{}
	known := map[*apitype.Type]*node{}
	if d.root = d.node(apitype.Of(pointer).Elem, off, known); len(d.gates) == 0 {
		return nil
	}
	return d
}

// node makes the node of a type; nil: nothing in it is dropped. A type that holds itself is
// looked at however deep it is.
func (d *Dropper) node(t *apitype.Type, off func(string) bool, known map[*apitype.Type]*node) *node {
	if n, ok := known[t]; ok {
		return n
	}
	n := &node{t: t}
	known[t] = n
	switch t.Kind {
	case apitype.Pointer, apitype.List, apitype.Map:
		n.elem = d.node(t.Elem, off, known)
	case apitype.Struct:
		for i := range t.Fields {
			f := &t.Fields[i]
			s := step{at: f.Offset, t: f.Type, gate: d.gate(t, f, off)}
			if s.gate < 0 {
				s.to = d.node(f.Type, off, known)
			}
			if s.gate >= 0 || s.to != nil {
				n.steps = append(n.steps, s)
			}
		}
	}
	if n.elem == nil && len(n.steps) == 0 {
		known[t] = nil
		return nil
	}
	return n
}

// gate returns the place of the gate that takes a field away, -1 if it stays.
func (d *Dropper) gate(t *apitype.Type, f *apitype.Field, off func(string) bool) int {
	for _, gate := range belongs()[key{t.Go.PkgPath(), t.Go.Name(), f.Go.Name}] {
		if !off(gate) {
			continue
		}
		if at := slices.Index(d.gates, gate); at >= 0 {
			return at
		}
		d.gates = append(d.gates, gate)
		return len(d.gates) - 1
	}
	return -1
}

// Drop drops the fields of obj whose gates old (nil: a new object) has no field of. Both are pointers of the Dropper's type.
func (d *Dropper) Drop(obj, old any) {
	if d == nil {
		return
	}
	uses := make([]bool, len(d.gates))
	if old != nil {
		d.root.visit(reflect.ValueOf(old).UnsafePointer(), false, func(s *step, at unsafe.Pointer) {
			uses[s.gate] = uses[s.gate] || !reflect.NewAt(s.t.Go, at).Elem().IsZero()
		})
	}
	d.root.visit(reflect.ValueOf(obj).UnsafePointer(), true, func(s *step, at unsafe.Pointer) {
		if !uses[s.gate] {
			reflect.NewAt(s.t.Go, at).Elem().SetZero()
		}
	})
}

// visit calls f with each field that belongs to a gate, and its place. Values of maps have none: f gets copies, which are put
// back if it changes them.
func (n *node) visit(at unsafe.Pointer, changes bool, f func(*step, unsafe.Pointer)) {
	switch n.t.Kind {
	case apitype.Pointer:
		if p := *(*unsafe.Pointer)(at); p != nil {
			n.elem.visit(p, changes, f)
		}
	case apitype.List:
		list := *(*[]byte)(at)
		for i := range len(list) {
			n.elem.visit(unsafe.Add(unsafe.Pointer(unsafe.SliceData(list)), uintptr(i)*n.elem.t.Size), changes, f)
		}
	case apitype.Map:
		m := reflect.NewAt(n.t.Go, at).Elem()
		for _, k := range m.MapKeys() {
			v := reflect.New(n.t.Go.Elem())
			v.Elem().Set(m.MapIndex(k))
			n.elem.visit(v.UnsafePointer(), changes, f)
			if changes {
				m.SetMapIndex(k, v.Elem())
			}
		}
	case apitype.Struct:
		for i := range n.steps {
			s := &n.steps[i]
			if place := unsafe.Add(at, s.at); s.gate >= 0 {
				f(s, place)
			} else {
				s.to.visit(place, changes, f)
			}
		}
	}
}
