package fieldmanager

import (
	"fmt"
	"reflect"
	"slices"
	"sort"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// GoTypes knows how the Go types of objects are walked. It is shared by the managers of a process.
type GoTypes struct {
	mu    sync.Mutex
	types map[reflect.Type]*goType // guarded by mu
}

// NewGoTypes returns an empty GoTypes. Types come in as they are asked for.
func NewGoTypes() *GoTypes { return &GoTypes{types: map[reflect.Type]*goType{}} }

// goType says how the values of a Go type are read.
type goType struct {
	form   form
	kind   kind      // of a value of form plain that is not nil
	elem   *goType   // of pointers, lists and maps
	fields []goField // of structs, sorted by name
	always []string  // those of them that are never left out
	entry  *value.TypeReflectCacheEntry
	from   *value.TypeReflectCacheEntry // reads the encoding of a type that has one of its own
	typ    reflect.Type
	// nulls says that there may be pointers to what is null in JSON, as a time that is zero is.
	nulls bool
}

type form byte

const (
	plainForm form = iota
	pointerForm
	structForm
	mapForm        // with keys that are strings
	textsForm      // map[string]string
	quantitiesForm // corev1.ResourceList
	bytesForm
	// These are written as a text, which is compared without being made where that can be.
	timeForm
	microTimeForm
	quantityForm
	durationForm
	intOrStringForm
	// jsonForm is what has an encoding of its own, which is then read.
	jsonForm
	// madeForm is what was read from such an encoding.
	madeForm
	// heldForm is that of the texts of a map of texts.
	heldForm
)

type goField struct {
	name  string
	index int // in the struct, or byEntry
	omit  omit
	entry *value.FieldCacheEntry
	typ   *goType
}

// byEntry is the index of a field of an embedded struct.
const byEntry = -1

// omit says when a field is left out of JSON.
type omit byte

const (
	omitByEntry omit = iota
	omitNever
	omitNil
	omitEmpty
	omitZero
)

var special = map[reflect.Type]goType{
	reflect.TypeFor[metav1.Time]():         {form: timeForm, kind: text},
	reflect.TypeFor[metav1.MicroTime]():    {form: microTimeForm, kind: text},
	reflect.TypeFor[metav1.Duration]():     {form: durationForm, kind: text},
	reflect.TypeFor[resource.Quantity]():   {form: quantityForm, kind: text},
	reflect.TypeFor[intstr.IntOrString]():  {form: intOrStringForm},
	reflect.TypeFor[map[string]string]():   {form: textsForm, kind: object},
	reflect.TypeFor[corev1.ResourceList](): {form: quantitiesForm, kind: object},
}

// made is the type of values that were read from an encoding.
var made = &goType{form: madeForm}

// heldText is the type of the texts of a map of texts.
var heldText = &goType{form: heldForm, kind: text}

// of returns how values of a Go type are read, or an error if there is a type in it for which that is not known.
func (g *GoTypes) of(t reflect.Type) (*goType, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gt := g.types[t]; gt != nil {
		return gt, nil
	}
	c := compiler{types: map[reflect.Type]*goType{}, known: g.types}
	gt := c.compile(t)
	if c.err != nil {
		return nil, c.err
	}
	c.findNulls()
	for t, gt := range c.types {
		g.types[t] = gt
	}
	return gt, nil
}

// findNulls finds the types of which a value may have pointers to what is null.
func (c *compiler) findNulls() {
	for changed := true; changed; {
		changed = false
		for _, gt := range c.types {
			if !gt.nulls && gt.mayHaveNulls() {
				gt.nulls, changed = true, true
			}
		}
	}
}

func (t *goType) mayHaveNulls() bool {
	if t.form == pointerForm && (t.elem.form == timeForm || t.elem.form == microTimeForm || t.elem.form == jsonForm) {
		return true
	}
	return t.elem != nil && t.elem.nulls || slices.ContainsFunc(t.fields, func(f goField) bool { return f.typ.nulls })
}

type compiler struct {
	types, known map[reflect.Type]*goType
	err          error
}

func (c *compiler) compile(t reflect.Type) *goType {
	if gt := c.known[t]; gt != nil {
		return gt
	}
	if gt := c.types[t]; gt != nil {
		return gt
	}
	gt := &goType{typ: t}
	c.types[t] = gt
	entry := value.TypeReflectEntryOf(t)
	if entry.CanConvertFromUnstructured() {
		gt.from = entry
	}
	if s, ok := special[t]; ok {
		gt.form, gt.kind = s.form, s.kind
		if gt.form == textsForm || gt.form == quantitiesForm {
			gt.elem = c.compile(t.Elem())
		}
		return gt
	}
	if t.Kind() == reflect.Pointer {
		// A type has the methods of its pointers where it has a place in memory, and here each has.
		gt.form, gt.elem = pointerForm, c.compile(t.Elem())
		if gt.elem.form == pointerForm {
			c.err = fmt.Errorf("%s: a pointer to a pointer", t)
		}
		return gt
	}
	if entry.CanConvertToUnstructured() {
		gt.form, gt.entry = jsonForm, entry
		return gt
	}
	c.fill(gt, t, entry)
	return gt
}

func (c *compiler) fill(gt *goType, t reflect.Type, entry *value.TypeReflectCacheEntry) {
	switch t.Kind() {
	case reflect.Bool:
		gt.kind = boolean
	case reflect.String:
		gt.kind = text
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Float32, reflect.Float64:
		gt.kind = number
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			gt.form, gt.kind = bytesForm, text
			return
		}
		gt.kind, gt.elem = list, c.compile(t.Elem())
	case reflect.Map:
		gt.form, gt.kind, gt.elem = mapForm, object, c.compile(t.Elem())
		if t.Key().Kind() != reflect.String {
			c.err = fmt.Errorf("%s: its keys are not strings", t)
		}
	case reflect.Struct:
		gt.form, gt.kind = structForm, object
		c.fillStruct(gt, t, entry)
	default:
		c.err = fmt.Errorf("%s: a field cannot be of this type", t)
	}
}

func (c *compiler) fillStruct(gt *goType, t reflect.Type, entry *value.TypeReflectCacheEntry) {
	zero := reflect.New(t).Elem()
	for _, e := range entry.OrderedFields() {
		of := e.GetFrom(zero)
		f := goField{name: e.JsonName, index: indexOf(zero, of), omit: omitOf(e, of.Type()), entry: e, typ: c.compile(of.Type())}
		gt.fields = append(gt.fields, f)
		if f.omit == omitNever {
			gt.always = append(gt.always, f.name)
		}
	}
}

// indexOf finds a field of a struct by its place.
func indexOf(of, field reflect.Value) int {
	for i := range of.NumField() {
		if f := of.Field(i); field.CanAddr() && f.Type() == field.Type() && f.Addr().Pointer() == field.Addr().Pointer() {
			return i
		}
	}
	return byEntry
}

// omitOf finds out when a field of a type is left out by leaving out some.
func omitOf(e *value.FieldCacheEntry, t reflect.Type) omit {
	if isZeroer := reflect.TypeFor[interface{ IsZero() bool }](); reflect.PointerTo(t).Implements(isZeroer) {
		return omitByEntry
	}
	zero := e.CanOmit(reflect.Zero(t))
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.String:
		if zero {
			return omitZero
		}
	case reflect.Pointer:
		if zero {
			return omitNil
		}
	case reflect.Slice:
		return omitOfEmpty(zero, e.CanOmit(reflect.MakeSlice(t, 0, 0)))
	case reflect.Map:
		return omitOfEmpty(zero, e.CanOmit(reflect.MakeMap(t)))
	default:
		if zero {
			return omitByEntry
		}
	}
	return omitNever
}

func omitOfEmpty(zero, empty bool) omit {
	switch {
	case empty:
		return omitEmpty
	case zero:
		return omitNil
	}
	return omitNever
}

// field returns a field of a struct, or nil if there is no such field.
func (t *goType) field(name string) *goField {
	i := sort.Search(len(t.fields), func(i int) bool { return t.fields[i].name >= name })
	if i == len(t.fields) || t.fields[i].name != name {
		return nil
	}
	return &t.fields[i]
}

// of returns the field of a struct, and false if it is left out.
func (f *goField) of(v reflect.Value) (reflect.Value, bool) {
	var rv reflect.Value
	if f.index == byEntry {
		rv = f.entry.GetFrom(v)
	} else {
		rv = v.Field(f.index)
	}
	switch f.omit {
	case omitNever:
		return rv, true
	case omitNil:
		return rv, !rv.IsNil()
	case omitEmpty:
		return rv, rv.Len() > 0
	case omitZero:
		return rv, !rv.IsZero()
	}
	return rv, !f.entry.CanOmit(rv)
}
