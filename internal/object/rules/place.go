package rules

import "k8s.io/apimachinery/pkg/util/validation/field"

// place is where a value is. Validation mostly finds nothing, and a pod has more than a hundred places, so a place becomes a
// field.Path only when somebody asks for it.
type place struct {
	in    *place
	made  *field.Path // once it was asked for
	kind  step
	index int
	name  string
}

// step is how a place lies in the one that it is in.
type step uint8

const (
	given step = iota // a path, which may be nil
	member
	item
	entry
)

func (p *place) path() *field.Path {
	if p.made != nil || p.kind == given {
		return p.made
	}
	switch in := p.in.path(); p.kind {
	case member:
		p.made = in.Child(p.name)
	case item:
		p.made = in.Index(p.index)
	case entry:
		p.made = in.Key(p.name)
	}
	return p.made
}

// found is what the Errors of a value share: the errors, and the memory of places.
type found struct {
	list   field.ErrorList
	places []place
}

// Places are allocated together, twice as many each time.
const (
	fewPlaces  = 4
	manyPlaces = 64
)

// place returns a new place. It stays where it is: the memory of earlier ones is not moved.
func (f *found) place(p place) *place {
	if n := cap(f.places); len(f.places) == n {
		f.places = make([]place, 0, min(max(2*n, fewPlaces), manyPlaces))
	}
	f.places = append(f.places, p)
	return &f.places[len(f.places)-1]
}
