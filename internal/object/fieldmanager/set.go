package fieldmanager

import (
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// set is a set of fields: a tree, sorted by the elements. It is immutable. Every node is a member or has members below it.
type set []node

type node struct {
	elem   element
	member bool
	below  set
}

func (n *node) empty() bool { return !n.member && len(n.below) == 0 }

// union returns the fields of both sets.
func union(a, b set) set {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	out := make(set, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := a[0].elem.compare(b[0].elem); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out = append(out, node{a[0].elem, a[0].member || b[0].member, union(a[0].below, b[0].below)})
			a, b = a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// minus returns the fields of a that are not in b. A field stays if only one above or below it is in b.
func (a set) minus(b set) set {
	return a.each(b, func(x, y *node) node {
		return node{x.elem, x.member && !y.member, x.below.minus(y.below)}
	})
}

// intersection returns the fields that are in both sets.
func (a set) intersection(b set) set {
	var out set
	for i := range a {
		for len(b) > 0 && b[0].elem.compare(a[i].elem) < 0 {
			b = b[1:]
		}
		if len(b) == 0 {
			break
		}
		if b[0].elem.compare(a[i].elem) != 0 {
			continue
		}
		n := node{a[i].elem, a[i].member && b[0].member, a[i].below.intersection(b[0].below)}
		if !n.empty() {
			out = append(out, n)
		}
	}
	return out
}

// equal reports whether two sets have the same fields.
func (a set) equal(b set) bool {
	return a.same(b) || slices.EqualFunc(a, b, func(x, y node) bool {
		return x.member == y.member && x.elem.compare(y.elem) == 0 && x.below.equal(y.below)
	})
}

// find returns the node of an element, or nil.
func (a set) find(e element) *node {
	i, ok := slices.BinarySearchFunc(a, e, func(n node, e element) int { return n.elem.compare(e) })
	if !ok {
		return nil
	}
	return &a[i]
}

// without returns the fields of a that are neither in b nor below a field in b.
func (a set) without(b set) set {
	return a.each(b, func(x, y *node) node {
		if y.member {
			return node{}
		}
		return node{x.elem, x.member, x.below.without(y.below)}
	})
}

// each replaces those nodes of a that b has too, and drops those that become empty. It returns a itself if nothing changes.
func (a set) each(b set, f func(x, y *node) node) set {
	if len(a) == 0 || len(b) == 0 {
		return a
	}
	var out set
	changed := false
	for i := range a {
		x := &a[i]
		for len(b) > 0 && b[0].elem.compare(x.elem) < 0 {
			b = b[1:]
		}
		n := *x
		if len(b) > 0 && b[0].elem.compare(x.elem) == 0 {
			n = f(x, &b[0])
		}
		if !changed {
			if n.same(x) {
				continue
			}
			changed, out = true, slices.Clone(a[:i])
		}
		if !n.empty() {
			out = append(out, n)
		}
	}
	if !changed {
		return a
	}
	return out
}

// same reports whether two nodes of one element are one set in memory.
func (n *node) same(o *node) bool { return n.member == o.member && n.below.same(o.below) }

func (a set) same(b set) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// setOf turns a set of the library into ours. It reports false if that cannot be done exactly.
func setOf(s *fieldpath.Set) (set, bool) {
	var out set
	exact := true
	add := func(pe fieldpath.PathElement) *node {
		e, ok := ofLibrary(pe)
		exact = exact && ok
		i, there := slices.BinarySearchFunc(out, e, func(n node, e element) int { return n.elem.compare(e) })
		if !there {
			out = slices.Insert(out, i, node{elem: e})
		}
		return &out[i]
	}
	for pe := range s.Members.All() {
		add(pe).member = true
	}
	s.Children.Iterate(func(pe fieldpath.PathElement) {
		child, _ := s.Children.Get(pe)
		below, ok := setOf(child)
		exact = exact && ok
		if len(below) > 0 {
			add(pe).below = below
		}
	})
	return out, exact
}

// library turns the set into one of the library.
func (a set) library() *fieldpath.Set {
	out := &fieldpath.Set{}
	for i := range a {
		pe := a[i].elem.library()
		if a[i].member {
			out.Members.Insert(pe)
		}
		if len(a[i].below) > 0 {
			*out.Children.Descend(pe) = *a[i].below.library()
		}
	}
	return out
}
