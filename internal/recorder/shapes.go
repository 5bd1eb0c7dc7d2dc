package recorder

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"github.com/kanzen-io/kanzen/internal/equal"
)

// shapes is what comparisons have found out about the types of objects. The zero value is ready to use, by many
// goroutines.
type shapes struct {
	equal equal.Types
	known sync.Map // of *shape by reflect.Type
}

// shape is what a comparison needs to know of a type.
type shape struct {
	whole  bool    // it is told as a whole: times, quantities
	fields []field // of a struct
}

// field is a field of a struct.
type field struct {
	index int
	name  string // in JSON; "": its own fields are in the place of it
	same  func(a, b reflect.Value) bool
}

// marshaler is implemented by values that are told as a whole.
var marshaler = reflect.TypeFor[json.Marshaler]()

func (s *shapes) of(t reflect.Type) *shape {
	if made, ok := s.known.Load(t); ok {
		return made.(*shape)
	}
	made := &shape{whole: t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)}
	if t.Kind() == reflect.Struct && !made.whole {
		made.fields = s.fields(t)
	}
	s.known.Store(t, made)
	return made
}

func (s *shapes) fields(t reflect.Type) []field {
	var out []field
	for n := range t.NumField() {
		f := t.Field(n)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() || name == "-":
			continue
		case f.Anonymous && name == "", strings.Contains(options, "inline"):
			name = ""
		case name == "":
			name = f.Name
		}
		out = append(out, field{index: n, name: name, same: s.equal.Comparison(f.Type)})
	}
	return out
}
