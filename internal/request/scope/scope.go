// Package scope has sets of a resource's objects by where they are and what they are called: what a user may see, what a list of some
// namespaces is about. A set is small, however many objects are in it, and is never changed once others have it.
//
// It is the part of a conditional authorization (KEP-5681) that can be asked of a key alone: no object has to be read to tell whether
// it is in a set.
package scope

import (
	"maps"
	"slices"
)

// Names are objects of one namespace by their names, or all of them.
type Names struct {
	All  bool
	Some map[string]bool
}

// Has reports whether the object of a name is among them.
func (n Names) Has(name string) bool { return n.All || n.Some[name] }

// Empty reports whether there are none.
func (n Names) Empty() bool { return !n.All && len(n.Some) == 0 }

// With returns those of both.
func (n Names) With(other Names) Names {
	switch {
	case n.All || other.Empty():
		return n
	case other.All || n.Empty():
		return other
	}
	some := maps.Clone(n.Some)
	maps.Copy(some, other.Some)
	return Names{Some: some}
}

// And returns those that are in both.
func (n Names) And(other Names) Names {
	switch {
	case n.All:
		return other
	case other.All:
		return n
	}
	var both Names
	for name := range n.Some {
		if other.Some[name] {
			if both.Some == nil {
				both.Some = map[string]bool{}
			}
			both.Some[name] = true
		}
	}
	return both
}

func (n Names) equal(other Names) bool {
	return n.All == other.All && (n.All || maps.Equal(n.Some, other.Some))
}

// Set is a set of objects of one resource. The zero Set is empty.
type Set struct {
	// Everywhere are the objects of these names in every namespace, and outside of namespaces.
	Everywhere Names
	// In are further ones, by namespace.
	In map[string]Names
}

// All returns the set of all objects.
func All() Set { return Set{Everywhere: Names{All: true}} }

// All reports whether all objects are in it.
func (s Set) All() bool { return s.Everywhere.All }

// Has reports whether an object is in it; the namespace of one outside of namespaces is empty.
func (s Set) Has(namespace, name string) bool {
	return s.Everywhere.Has(name) || s.In[namespace].Has(name)
}

// Of returns the objects of a namespace that are in it.
func (s Set) Of(namespace string) Names { return s.Everywhere.With(s.In[namespace]) }

// With returns the objects of both sets.
func (s Set) With(other Set) Set {
	out := Set{Everywhere: s.Everywhere.With(other.Everywhere), In: maps.Clone(s.In)}
	for namespace, n := range other.In {
		if out.In == nil {
			out.In = make(map[string]Names, len(other.In))
		}
		out.In[namespace] = out.In[namespace].With(n)
	}
	return out
}

// And returns the objects that are in both sets.
func (s Set) And(other Set) Set {
	out := Set{Everywhere: s.Everywhere.And(other.Everywhere)}
	for _, in := range []map[string]Names{s.In, other.In} {
		for namespace := range in {
			if n := s.Of(namespace).And(other.Of(namespace)); !n.Empty() {
				if out.In == nil {
					out.In = map[string]Names{}
				}
				out.In[namespace] = n
			}
		}
	}
	return out
}

// Within returns the objects of some namespaces that are in it.
func (s Set) Within(namespaces []string) Set {
	out := Set{In: make(map[string]Names, len(namespaces))}
	for _, namespace := range namespaces {
		if n := s.Of(namespace); !n.Empty() {
			out.In[namespace] = n
		}
	}
	return out
}

// Namespaces are those that In names, in no order.
func (s Set) Namespaces() []string { return slices.Collect(maps.Keys(s.In)) }

// Equal reports whether two sets are written the same. Sets that are not may have the same objects.
func (s Set) Equal(other Set) bool {
	return s.Everywhere.equal(other.Everywhere) && maps.EqualFunc(s.In, other.In, Names.equal)
}

// Differing returns a set that has every object that is in one of two sets and not in the other; it may have others too.
func (s Set) Differing(other Set) Set {
	if !s.Everywhere.equal(other.Everywhere) {
		return s.With(other)
	}
	out := Set{In: map[string]Names{}}
	for namespace, n := range s.In {
		if o := other.In[namespace]; !n.equal(o) {
			out.In[namespace] = n.With(o)
		}
	}
	for namespace, o := range other.In {
		if _, both := s.In[namespace]; !both {
			out.In[namespace] = o
		}
	}
	return out
}
