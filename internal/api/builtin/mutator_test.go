package builtin_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// mutator makes random objects. There are few values of each type, so that they often are the same.
type mutator struct{ r *rand.Rand }

func newMutator(r *rand.Rand) *mutator { return &mutator{r} }

func (m *mutator) fill(obj engine.Object) { m.value(reflect.ValueOf(obj).Elem(), 0) }

// texts are the texts of an object. A few need escapes in JSON.
var texts = []string{"a", "b", "c", "d", "a", "b", "c", "name", "TCP", "", "é", "<\"&\\>"}

func (m *mutator) text() string { return texts[m.r.Intn(len(texts))] }

// deepest is how deep the structs of an object are.
const deepest = 9

// value gives a value of a type random content.
func (m *mutator) value(v reflect.Value, depth int) {
	if m.special(v) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.SetZero()
		if m.present(depth) {
			v.Set(reflect.New(v.Type().Elem()))
			m.value(v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() && (v.NumField() < 4 || m.r.Intn(3) > 0) {
				m.value(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		v.SetZero()
		if m.present(depth) {
			n := m.r.Intn(4)
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				m.value(v.Index(i), depth+1)
			}
		}
	case reflect.Map:
		v.SetZero()
		if m.present(depth) {
			v.Set(reflect.MakeMap(v.Type()))
			for range m.r.Intn(4) {
				e := reflect.New(v.Type().Elem()).Elem()
				m.value(e, depth+1)
				v.SetMapIndex(reflect.ValueOf(m.text()).Convert(v.Type().Key()), e)
			}
		}
	default:
		m.scalar(v)
	}
}

func (m *mutator) present(depth int) bool { return depth < deepest && m.r.Intn(2+depth/2) == 0 }

func (m *mutator) scalar(v reflect.Value) {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(m.text())
	case v.Kind() == reflect.Bool:
		v.SetBool(m.r.Intn(2) == 0)
	case v.CanInt():
		v.SetInt(int64(m.r.Intn(4)))
	case v.CanUint():
		v.SetUint(uint64(m.r.Intn(4)))
	case v.CanFloat():
		v.SetFloat(float64(m.r.Intn(4)) / 2)
	}
}

// special makes values of types that have an encoding of their own.
func (m *mutator) special(v reflect.Value) bool {
	n := m.r.Intn(4)
	var out any
	switch v.Interface().(type) {
	case metav1.Time:
		out = metav1.Time{Time: m.time(n)}
	case metav1.MicroTime:
		out = metav1.MicroTime{Time: m.time(n)}
	case metav1.Duration:
		out = metav1.Duration{Duration: time.Duration(n) * time.Second}
	case resource.Quantity:
		out = resource.MustParse([]string{"1", "1000m", "2Gi", "0"}[n])
	case intstr.IntOrString:
		out = []intstr.IntOrString{intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("a"), {}}[n]
	case runtime.RawExtension:
		out = runtime.RawExtension{Raw: m.raw()}
	case apiextensionsv1.JSON:
		out = apiextensionsv1.JSON{Raw: m.raw()}
	case metav1.FieldsV1:
		out = *metav1.NewFieldsV1(`{"f:a":{}}`)
	case []byte:
		out = []byte(m.text())
	case []metav1.ManagedFieldsEntry:
		out = []metav1.ManagedFieldsEntry(nil)
	default:
		return false
	}
	v.Set(reflect.ValueOf(out))
	return true
}

func (m *mutator) time(n int) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(1700000000+int64(n/2), int64(m.r.Intn(3))*1000).UTC()
}

func (m *mutator) raw() []byte {
	doc := []any{nil, "a", 1, 1.5, true, []any{1, map[string]any{"a": nil}}, map[string]any{}, map[string]any{"a": 1, "b": []any{"a"}}}
	b, err := json.Marshal(doc[m.r.Intn(len(doc))])
	if err != nil {
		panic(err)
	}
	return b
}

// mutate changes an object at a random place.
func (m *mutator) mutate(obj engine.Object) { m.change(reflect.ValueOf(obj).Elem(), 0) }

func (m *mutator) change(v reflect.Value, depth int) {
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil() && m.r.Intn(4) > 0:
		m.change(v.Elem(), depth+1)
	case v.Kind() == reflect.Struct && v.NumField() > 0 && !m.special(v):
		if f := v.Field(m.r.Intn(v.NumField())); f.CanSet() {
			m.change(f, depth+1)
		}
	case v.Kind() == reflect.Slice && v.Len() > 0 && v.Type().Elem().Kind() != reflect.Uint8:
		m.changeList(v, depth)
	case v.Kind() == reflect.Map && v.Len() > 0 && m.r.Intn(4) > 0:
		m.changeMap(v, depth)
	default:
		m.value(v, depth)
	}
}

func (m *mutator) changeList(v reflect.Value, depth int) {
	i := m.r.Intn(v.Len())
	switch m.r.Intn(6) {
	case 0:
		v.Set(reflect.AppendSlice(v.Slice3(0, i, i), v.Slice(i+1, v.Len())))
	case 1:
		v.Set(reflect.Append(v, v.Index(i))) // twice
	case 2:
		e := reflect.New(v.Type().Elem()).Elem()
		m.value(e, depth+1)
		v.Set(reflect.Append(v, e))
	case 3:
		reflect.Swapper(v.Interface())(i, m.r.Intn(v.Len()))
	default:
		m.change(v.Index(i), depth+1)
	}
}

func (m *mutator) changeMap(v reflect.Value, depth int) {
	key := reflect.ValueOf(m.text()).Convert(v.Type().Key())
	if m.r.Intn(3) == 0 {
		v.SetMapIndex(key, reflect.Value{})
		return
	}
	e := reflect.New(v.Type().Elem()).Elem()
	if old := v.MapIndex(key); old.IsValid() {
		e.Set(old)
		m.change(e, depth+1)
	} else {
		m.value(e, depth+1)
	}
	v.SetMapIndex(key, e)
}

// prune leaves out a part of an object.
func (m *mutator) prune(of map[string]any) {
	for name, v := range of {
		if m.r.Intn(6) == 0 {
			delete(of, name)
			continue
		}
		if below, ok := v.(map[string]any); ok {
			m.prune(below)
		}
	}
}

// managers returns what a client sends as managers: mostly those it has got.
func (m *mutator) managers(live []metav1.ManagedFieldsEntry) (out []metav1.ManagedFieldsEntry, spoiled bool) {
	out = append([]metav1.ManagedFieldsEntry(nil), live...)
	for i := range out {
		out[i] = *out[i].DeepCopy()
	}
	switch m.r.Intn(24) {
	case 0, 1, 2:
		return nil, false
	case 3:
		return []metav1.ManagedFieldsEntry{}, false
	case 4:
		return []metav1.ManagedFieldsEntry{{}}, false
	case 5:
		if len(out) > 0 {
			spoiled = true
			m.spoil(&out[m.r.Intn(len(out))])
		}
	case 8:
		if len(out) > 0 {
			out = append(out, out[0])
		}
	case 9:
		if len(out) > 1 {
			out = out[1:]
		}
	case 10:
		out = m.many(out)
	}
	return out, spoiled
}

// many returns more managers than there may be.
func (m *mutator) many(of []metav1.ManagedFieldsEntry) (out []metav1.ManagedFieldsEntry) {
	for i := range of {
		for k := range 14 {
			e := *of[i].DeepCopy()
			e.Manager = fmt.Sprintf("manager-%d", k)
			if k > 11 {
				e.Manager = "ancient-changes"
			}
			e.Time = &metav1.Time{Time: time.Unix(int64(m.r.Intn(20)), 0)}
			out = append(out, e)
		}
	}
	return out
}

// spoil makes an entry unlike those that a server writes.
func (m *mutator) spoil(e *metav1.ManagedFieldsEntry) {
	fields := func(s string) { e.FieldsV1 = metav1.NewFieldsV1(s) }
	switch m.r.Intn(16) {
	case 0:
		e.Operation = "Delete"
	case 1:
		e.FieldsType = ""
	case 2:
		e.FieldsV1 = nil
	case 3:
		fields(`{"f:spec":{}, "f:metadata":{"f:labels":{"f:b":{},"f:a":{}}}}`)
	case 4:
		fields(`{"f:spec":{"k:{\"name\":\"a\",\"port\":1.5}":{".":{},"f:x":{}},"v:\"a\"":{},"i:3":{},"x:y":{},"v:true":{},"v:12":{}}}`)
	case 5:
		fields(`{"f:metadata":{"f:labels":{"f:a\u00e9\"<":{}}}}`)
	case 6:
		fields(`{"f:spec"`)
	case 7:
		fields(`{"f:metadata":{"f:labels":{"f:a":{},"f:a":{"f:b":{}}}}}`)
	case 8:
		e.Operation = metav1.ManagedFieldsOperationApply
	case 9:
		e.APIVersion = "example.com/v9"
	case 10:
		e.APIVersion = ""
	case 11:
		e.Subresource = "status"
	case 12:
		e.Time = nil
	case 13:
		e.Manager = "ancient-changes"
	case 14:
		fields(`{}`)
	case 15:
		fields(`{"f:metadata":{".":{},"f:managedFields":{},"f:name":{}},"f:data":{".":{},"f:a":{}},"f:spec":{"f:template":{".":{}}}}`)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
