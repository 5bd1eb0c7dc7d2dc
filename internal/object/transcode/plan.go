package transcode

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
)

// Plan is how messages of one Go type become JSON. It is not changed after Compile and can be shared.
type Plan struct {
	root         *apitype.Type
	dropManaged  bool
	onlyMetadata bool
}

// wire types of protobuf.
const (
	wireVarint = 0
	wireFixed8 = 1
	wireBytes  = 2
	wireFixed4 = 5
)

// wireOf is how one value of a type is written; of a list or a map that is a value of it.
func wireOf(t *apitype.Type) int {
	if k := t.Bare().Kind; k == apitype.Bool || k == apitype.Int || k == apitype.Uint {
		return wireVarint
	}
	return wireBytes
}

// isMany says that a field is written as often as it has values.
func isMany(t *apitype.Type) bool { return apitype.List <= t.Kind && t.Kind <= apitype.Quantities }

// Options say in what the JSON differs from the object's.
type Options struct {
	// DropManaged leaves metadata.managedFields out.
	DropManaged bool
	// Defaults says that the objects have defaults, which are in the bytes already. A plan is refused if they can name the
	// types of objects inside of the object: these are not in the bytes.
	Defaults bool
}

// Compile makes the plan of the struct type t, an API object's. The plan puts revisions into the metadata.
func Compile(t reflect.Type, o Options) (*Plan, error) {
	root := apitype.Of(t)
	if meta := root.Member("metadata"); meta == nil || meta.Type.Kind != apitype.Struct {
		return nil, fmt.Errorf("%s has no metadata", t)
	}
	c := checker{seen: map[*apitype.Type]bool{}, defaults: o.Defaults}
	if err := c.message(root); err != nil {
		return nil, err
	}
	return &Plan{root: root, dropManaged: o.DropManaged}, nil
}

// Metadata returns the plan of {"metadata":…} alone.
func (p *Plan) Metadata() *Plan {
	only := *p
	only.onlyMetadata = true
	return &only
}

// checker refuses types with fields that are not written here.
type checker struct {
	seen     map[*apitype.Type]bool
	defaults bool
}

var typeMeta = reflect.TypeFor[metav1.TypeMeta]()

func (c *checker) message(t *apitype.Type) error {
	if c.seen[t] {
		return nil
	}
	c.seen[t] = true
	if t.Holds&apitype.HoldsForeign != 0 {
		return fmt.Errorf("%s has no plan", t.Go)
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if f.Type.Go == typeMeta && c.defaults && len(c.seen) > 1 {
			return fmt.Errorf("%s: its type is not stored inside of another object", t.Go)
		}
		if f.Type.Go == typeMeta || f.Key == "" && !f.Inline {
			continue // the type is the caller's to write
		}
		if err := c.field(f); err != nil {
			return fmt.Errorf("%s.%s: %w", t.Go, f.Go.Name, err)
		}
	}
	return nil
}

func (c *checker) field(f *apitype.Field) error {
	one := f.Type
	switch one.Kind {
	case apitype.List:
		one = one.Elem.Bare()
	case apitype.Map, apitype.Strings, apitype.Quantities:
		one = one.Elem
	case apitype.Pointer:
		one = one.Elem
	}
	switch {
	case f.Number == 0:
		return fmt.Errorf("no field number in %q", f.Go.Tag.Get("protobuf"))
	case f.Zero != nil && one.Kind != apitype.Time && one.Kind != apitype.MicroTime:
		return fmt.Errorf("omitzero of %s has no plan", f.Type.Go)
	case readsProtobuf(f.Type) || readsProtobuf(one):
		return fmt.Errorf("%s reads its own protobuf", f.Type.Go)
	}
	switch one.Kind {
	case apitype.Struct:
		return c.message(one)
	case apitype.Bool, apitype.String, apitype.Bytes:
		return nil
	case apitype.Int, apitype.Uint:
		if one.Bits >= 32 {
			return nil
		}
	}
	if one.Kind > apitype.Own {
		return nil
	}
	return fmt.Errorf("%s has no plan", f.Type.Go)
}

// readsProtobuf says that a type that is no struct reads its own protobuf.
func readsProtobuf(t *apitype.Type) bool {
	return t.Go.Kind() != reflect.Struct && reflect.PointerTo(t.Go).Implements(reflect.TypeFor[interface{ Unmarshal([]byte) error }]())
}
