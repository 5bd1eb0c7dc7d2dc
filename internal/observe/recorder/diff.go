package recorder

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
	"github.com/kanzen-io/kanzen/internal/object/equal"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// Bounds of a comparison.
const (
	maxFields = 24     // that are listed
	maxVisits = 50_000 // values that are looked at
)

// differ compares two objects. It walks both together and stops at what is equal.
type differ struct {
	secret bool // no values
	fields []v1alpha1.FieldChange
	more   int
	visits int
	path   []string
}

// compare returns the fields in which two objects differ. Lists whose items have names are compared by these.
func compare(old, obj any, secret bool) ([]v1alpha1.FieldChange, int) {
	d := &differ{secret: secret}
	a, okA := old.(*unstructured.Unstructured)
	b, okB := obj.(*unstructured.Unstructured)
	if okA && okB {
		d.walk(reflect.ValueOf(a.Object), reflect.ValueOf(b.Object))
	} else {
		d.walk(reflect.ValueOf(old), reflect.ValueOf(obj))
	}
	slices.SortFunc(d.fields, func(a, b v1alpha1.FieldChange) int { return strings.Compare(a.Path, b.Path) })
	return d.fields, d.more
}

// ignores says that every write changes a field of what is walked.
func (d *differ) ignores(name string) bool {
	switch {
	case len(d.path) == 0:
		return name == "apiVersion" || name == "kind"
	case len(d.path) == 1 && d.path[0] == "metadata":
		return name == "managedFields" || name == "resourceVersion" || name == "generation"
	}
	return false
}

func (d *differ) walk(a, b reflect.Value) {
	if d.visits++; d.visits > maxVisits {
		return
	}
	for a.IsValid() && (a.Kind() == reflect.Interface || a.Kind() == reflect.Pointer) {
		a = a.Elem()
	}
	for b.IsValid() && (b.Kind() == reflect.Interface || b.Kind() == reflect.Pointer) {
		b = b.Elem()
	}
	if empty(a) && empty(b) {
		return
	}
	if !a.IsValid() || !b.IsValid() || a.Type() != b.Type() || apitype.Of(a.Type()).Marshals {
		if !a.IsValid() || !b.IsValid() || !deepEqual(a, b) {
			d.report(a, b)
		}
		return
	}
	switch a.Kind() {
	case reflect.Struct:
		d.structs(a, b)
	case reflect.Map:
		d.maps(a, b)
	case reflect.Slice:
		d.slices(a, b)
	default:
		if !a.Equal(b) {
			d.report(a, b)
		}
	}
}

func deepEqual(a, b reflect.Value) bool { return reflect.DeepEqual(a.Interface(), b.Interface()) }

// empty says that a value is as good as not there: kube-apiserver's encodings do not tell nil from empty.
func empty(v reflect.Value) bool {
	if !v.IsValid() {
		return true
	}
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	}
	return false
}

func (d *differ) in(name string, f func()) {
	if d.ignores(name) {
		return
	}
	d.path = append(d.path, name)
	f()
	d.path = d.path[:len(d.path)-1]
}

func (d *differ) structs(a, b reflect.Value) {
	t := apitype.Of(a.Type())
	for i := range t.Fields {
		f := &t.Fields[i]
		x, y := f.In(a), f.In(b)
		switch {
		case !f.Go.IsExported():
		case d.ignores(f.Name) || equal.Values(f.Type, x, y): // most of an object, in most writes
		case f.Inline:
			d.walk(x, y)
		case f.Name != "":
			d.in(f.Name, func() { d.walk(x, y) })
		}
	}
}

func (d *differ) maps(a, b reflect.Value) {
	if a.Type().Key().Kind() != reflect.String {
		if !deepEqual(a, b) {
			d.report(a, b)
		}
		return
	}
	for it := a.MapRange(); it.Next(); {
		d.in(key(it.Key().String()), func() { d.walk(it.Value(), b.MapIndex(it.Key())) })
	}
	for it := b.MapRange(); it.Next(); {
		if !a.MapIndex(it.Key()).IsValid() {
			d.in(key(it.Key().String()), func() { d.walk(reflect.Value{}, it.Value()) })
		}
	}
}

// key writes the key of a map into a path.
func key(k string) string {
	if strings.ContainsAny(k, ".[]\"") {
		return "[" + strconv.Quote(k) + "]"
	}
	return k
}

func (d *differ) slices(a, b reflect.Value) {
	if a.Type().Elem().Kind() == reflect.Uint8 {
		if !deepEqual(a, b) {
			d.report(a, b)
		}
		return
	}
	namesA, namesB := names(a), names(b)
	if namesA == nil && a.Len() > 0 || namesB == nil && b.Len() > 0 {
		for n := range max(a.Len(), b.Len()) {
			d.in("["+strconv.Itoa(n)+"]", func() { d.walk(at(a, n), at(b, n)) })
		}
		return
	}
	for n, name := range namesA {
		d.in("["+name+"]", func() { d.walk(a.Index(n), at(b, slices.Index(namesB, name))) })
	}
	for n, name := range namesB {
		if !slices.Contains(namesA, name) {
			d.in("["+name+"]", func() { d.walk(reflect.Value{}, b.Index(n)) })
		}
	}
}

func at(v reflect.Value, n int) reflect.Value {
	if n < 0 || n >= v.Len() {
		return reflect.Value{}
	}
	return v.Index(n)
}

// maxNamed bounds lists that are compared by names.
const maxNamed = 200

// names returns what tells the items of a list apart: their name or type; nil if nothing does.
func names(list reflect.Value) []string {
	if list.Len() > maxNamed {
		return nil
	}
	for _, field := range []string{"name", "type"} {
		out := make([]string, 0, list.Len())
		for n := range list.Len() {
			s := member(list.Index(n), field)
			if s == "" || slices.Contains(out, s) {
				out = nil
				break
			}
			out = append(out, s)
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// member returns a text field of an item.
func member(v reflect.Value, field string) string {
	for v.IsValid() && (v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer) {
		v = v.Elem()
	}
	if !v.IsValid() {
		return ""
	}
	switch v.Kind() {
	case reflect.Struct:
		if f := apitype.Of(v.Type()).Member(field); f != nil && f.Type.Kind == apitype.String {
			return f.In(v).String()
		}
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String {
			if f := v.MapIndex(reflect.ValueOf(field).Convert(v.Type().Key())); f.IsValid() {
				s, _ := f.Interface().(string)
				return s
			}
		}
	}
	return ""
}

// report adds a field. Of what is not a scalar only the path is told.
func (d *differ) report(a, b reflect.Value) {
	if len(d.fields) == maxFields {
		d.more++
		return
	}
	var path strings.Builder
	for n, p := range d.path {
		if n > 0 && !strings.HasPrefix(p, "[") {
			path.WriteByte('.')
		}
		path.WriteString(p)
	}
	f := v1alpha1.FieldChange{Path: text(path.String(), maxPath), Hidden: d.secret}
	if !f.Hidden {
		f.Old, f.New = d.value(a), d.value(b)
	}
	d.fields = append(d.fields, f)
}

// value returns a scalar as JSON; other values, and long ones, only as what they are.
func (d *differ) value(v reflect.Value) string {
	if !v.IsValid() {
		return ""
	}
	isScalar := apitype.Of(v.Type()).Marshals
	switch v.Kind() {
	case reflect.Map:
		if !isScalar {
			return fmt.Sprintf("{%d fields}", v.Len())
		}
	case reflect.Struct:
		if !isScalar {
			return "{…}"
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return fmt.Sprintf("(%d bytes)", v.Len())
		}
		return fmt.Sprintf("[%d items]", v.Len())
	case reflect.String:
		if v.Len() > maxValue {
			return fmt.Sprintf("(%d bytes)", v.Len())
		}
	}
	b, err := marshal(v.Interface())
	if err != nil || len(b) > 2*maxValue {
		return fmt.Sprintf("(%d bytes)", len(b))
	}
	return text(string(b), 2*maxValue)
}

// marshal is json.Marshal, which checks again what a time or a quantity has made.
func marshal(v any) ([]byte, error) {
	if m, ok := v.(json.Marshaler); ok {
		return m.MarshalJSON()
	}
	return json.Marshal(v)
}
