package transcode

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Plan is how messages of one Go type become JSON. It is not changed after Compile and can be shared.
type Plan struct {
	fields []field // in the order of the JSON
	// index in fields of each field number; -1: unknown, skipped as Unmarshal skips it.
	index []int16
}

// field is one field of a struct.
type field struct {
	name    []byte // `"name":`
	form    form
	list    bool   // repeated; form is that of an element
	message *Plan  // of formMessage and formInline
	value   *field // of formMap
	pointer bool   // nil if the bytes do not have it
	omit    bool   // omitempty
	zero    bool   // omitzero; only of times
	dropped bool   // not written
	// revision marks metadata.resourceVersion, which is not stored.
	revision bool
}

// optional says that field leaves it out if the bytes do not have it, as is so of most fields of most objects.
func (f *field) optional() bool {
	return f.omit && !f.revision && (f.list || f.pointer || f.form == formMap || f.form <= formUint64)
}

// form is how a single value is written.
type form uint8

const (
	formString form = iota
	formBytes
	formBool
	formInt32
	formInt64
	formUint32
	formUint64
	formMessage
	formInline // the fields of a message as fields of this one
	formMap
	formTime
	formMicroTime
	formDuration
	formQuantity
	formIntOrString
	formRaw    // a JSON document
	formFields // the same, null if it is empty
)

// wire types of protobuf.
const (
	wireVarint = 0
	wireFixed8 = 1
	wireBytes  = 2
	wireFixed4 = 5
)

func (f form) wire() int {
	switch f {
	case formBool, formInt32, formInt64, formUint32, formUint64:
		return wireVarint
	}
	return wireBytes
}

// special are the types whose JSON is not that of their fields.
var special = map[reflect.Type]form{
	reflect.TypeFor[metav1.Time]():          formTime,
	reflect.TypeFor[metav1.MicroTime]():     formMicroTime,
	reflect.TypeFor[metav1.Duration]():      formDuration,
	reflect.TypeFor[resource.Quantity]():    formQuantity,
	reflect.TypeFor[intstr.IntOrString]():   formIntOrString,
	reflect.TypeFor[runtime.RawExtension](): formRaw,
	reflect.TypeFor[metav1.FieldsV1]():      formFields,
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	typeMeta      = reflect.TypeFor[metav1.TypeMeta]()

	protobufMessage = reflect.TypeFor[interface{ Unmarshal([]byte) error }]()
)

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
	c := compiler{plans: map[reflect.Type]*Plan{}, defaults: o.Defaults}
	root, err := c.plan(t)
	if err != nil {
		return nil, err
	}
	meta := root.metadata()
	if meta == nil {
		return nil, fmt.Errorf("%s has no metadata", t)
	}
	// The metadata of the object itself has a plan of its own: that of pod templates is not changed.
	own := &Plan{fields: slices.Clone(meta.message.fields), index: meta.message.index}
	for n := range own.fields {
		f := &own.fields[n]
		f.revision = string(f.name) == `"resourceVersion":`
		f.dropped = o.DropManaged && string(f.name) == `"managedFields":`
	}
	meta.message = own
	return root, nil
}

// Metadata returns the plan of {"metadata":…} alone.
func (p *Plan) Metadata() *Plan {
	only := &Plan{fields: slices.Clone(p.fields), index: p.index}
	for n := range only.fields {
		only.fields[n].dropped = string(only.fields[n].name) != metadataName
	}
	return only
}

const metadataName = `"metadata":`

func (p *Plan) metadata() *field {
	for n := range p.fields {
		if string(p.fields[n].name) == metadataName && p.fields[n].form == formMessage {
			return &p.fields[n]
		}
	}
	return nil
}

type compiler struct {
	plans    map[reflect.Type]*Plan
	defaults bool
}

// plan returns the plan of a struct type. A type that contains itself meets its own plan, which is not filled yet.
func (c *compiler) plan(t reflect.Type) (*Plan, error) {
	if p := c.plans[t]; p != nil {
		return p, nil
	}
	p := &Plan{}
	c.plans[t] = p
	for n := range t.NumField() {
		sf := t.Field(n)
		name, opts, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if sf.Type == typeMeta && c.defaults && len(c.plans) > 1 {
			return nil, fmt.Errorf("%s: its type is not stored inside of another object", t)
		}
		if sf.Type == typeMeta || name == "-" && opts == "" {
			continue // the type is the caller's to write
		}
		f, number, err := c.structField(sf, name, opts)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, sf.Name, err)
		}
		for len(p.index) <= number {
			p.index = append(p.index, -1)
		}
		p.index[number] = int16(len(p.fields))
		p.fields = append(p.fields, f)
	}
	return p, nil
}

func (c *compiler) structField(sf reflect.StructField, name, opts string) (f field, number int, err error) {
	if number, err = fieldNumber(sf.Tag.Get("protobuf")); err != nil {
		return f, 0, err
	}
	f, err = c.typed(sf.Type)
	if err != nil {
		return f, 0, err
	}
	if sf.Anonymous && name == "" {
		if f.form != formMessage || f.pointer || f.list {
			return f, 0, fmt.Errorf("embedded %s has no plan", sf.Type)
		}
		f.form = formInline
	}
	if name == "" {
		name = sf.Name
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		return f, 0, err
	}
	f.name = append(quoted, ':')
	for opt := range strings.SplitSeq(opts, ",") {
		switch opt {
		case "", "inline":
		case "omitempty":
			f.omit = true
		case "omitzero":
			if f.zero = true; f.form != formTime && f.form != formMicroTime {
				return f, 0, fmt.Errorf("omitzero of %s has no plan", sf.Type)
			}
		default:
			return f, 0, fmt.Errorf("option %q has no plan", opt)
		}
	}
	return f, number, nil
}

// fieldNumber reads `bytes,1,opt,name=metadata`.
func fieldNumber(tag string) (int, error) {
	_, rest, _ := strings.Cut(tag, ",")
	number, _, _ := strings.Cut(rest, ",")
	n, err := strconv.Atoi(number)
	if err != nil || n <= 0 || n > 1000 {
		return 0, fmt.Errorf("no field number in %q", tag)
	}
	return n, nil
}

// typed returns a field's form, by its type.
func (c *compiler) typed(t reflect.Type) (f field, err error) {
	if t.Kind() == reflect.Pointer {
		f, err = c.single(t.Elem())
		f.pointer = true
		return f, err
	}
	if _, ok := special[t]; ok || t.Kind() != reflect.Slice || t.Elem().Kind() == reflect.Uint8 {
		return c.single(t)
	}
	if marshals(t) {
		return f, fmt.Errorf("%s has a JSON form of its own", t)
	}
	elem := t.Elem()
	if elem.Kind() == reflect.Slice && elem.Elem().Kind() != reflect.Uint8 {
		return f, fmt.Errorf("%s has no plan", t)
	}
	f, err = c.typed(elem)
	f.list = true
	return f, err
}

// single returns the form of one value.
func (c *compiler) single(t reflect.Type) (f field, err error) {
	if s, ok := special[t]; ok {
		return field{form: s}, nil
	}
	if marshals(t) {
		return f, fmt.Errorf("%s has a JSON form of its own", t)
	}
	switch t.Kind() {
	case reflect.String:
		f.form = formString
	case reflect.Bool:
		f.form = formBool
	case reflect.Int32:
		f.form = formInt32
	case reflect.Int64:
		f.form = formInt64
	case reflect.Uint32:
		f.form = formUint32
	case reflect.Uint64:
		f.form = formUint64
	case reflect.Struct:
		f.form = formMessage
		f.message, err = c.plan(t)
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return f, fmt.Errorf("%s has no plan", t)
		}
		f.form = formBytes
	case reflect.Map:
		return c.mapped(t)
	default:
		return f, fmt.Errorf("%s has no plan", t)
	}
	return f, err
}

func (c *compiler) mapped(t reflect.Type) (f field, err error) {
	if t.Key().Kind() != reflect.String || marshals(t.Key()) {
		return f, fmt.Errorf("%s has no plan", t)
	}
	v, err := c.typed(t.Elem())
	if err == nil && (v.pointer || v.list || v.form == formMap) {
		err = fmt.Errorf("%s has no plan", t)
	}
	return field{form: formMap, value: &v}, err
}

// marshals says that a type that is no struct reads its own protobuf, or that a type writes its own JSON.
func marshals(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(jsonMarshaler) || p.Implements(textMarshaler) || t.Kind() != reflect.Struct && p.Implements(protobufMessage)
}
