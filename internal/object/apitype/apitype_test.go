package apitype

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// apiTypes returns the Go types of all kinds of Kubernetes.
func apiTypes() []reflect.Type {
	out := []reflect.Type{reflect.TypeFor[apiextensionsv1.CustomResourceDefinition]()}
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version != runtime.APIVersionInternal {
			out = append(out, typ)
		}
	}
	return out
}

// below calls f with a type and all types in it.
func below(t *Type, seen map[*Type]bool, f func(t *Type)) {
	if seen[t] {
		return
	}
	seen[t] = true
	f(t)
	if t.Elem != nil {
		below(t.Elem, seen, f)
	}
	for i := range t.Members {
		below(t.Members[i].Type, seen, f)
	}
}

// The members of all structs of Kubernetes are what encoding/json writes of them, in its order, and nothing in them is foreign.
func TestMembersAreThoseOfJSON(t *testing.T) {
	seen := map[*Type]bool{}
	for _, typ := range apiTypes() {
		below(Of(typ), seen, func(of *Type) {
			if of.Holds&HoldsForeign != 0 {
				t.Errorf("%v has something foreign", of.Go)
			}
			if of.Kind != Struct {
				return
			}
			for _, v := range []reflect.Value{reflect.New(of.Go).Elem(), filled(of)} {
				var want strings.Builder
				for i := range of.Members {
					m := &of.Members[i]
					if f := m.In(v); !m.Omits(f) {
						b, err := json.Marshal(f.Addr().Interface())
						if err != nil {
							t.Fatal(err)
						}
						want.WriteString("," + m.Key + string(b))
					}
					if at := of.Place(m.Name); at != i || of.Member(m.Name) != m || v.Addr().UnsafePointer() == nil ||
						uintptr(m.In(v).Addr().UnsafePointer())-uintptr(v.Addr().UnsafePointer()) != m.Offset {
						t.Errorf("%v.%s is not where it is said to be", of.Go, m.Name)
					}
				}
				got, err := json.Marshal(v.Addr().Interface())
				if err != nil {
					t.Fatal(err)
				}
				if string(got) != "{"+strings.TrimPrefix(want.String(), ",")+"}" {
					t.Errorf("%v is\n%s, not\n{%s}", of.Go, got, want.String())
				}
			}
			if !slices.IsSortedFunc(of.Sorted, func(a, b *Field) int { return strings.Compare(a.Name, b.Name) }) || len(of.Sorted) != len(of.Members) {
				t.Errorf("%v: %d of %d are sorted", of.Go, len(of.Sorted), len(of.Members))
			}
		})
	}
	if len(seen) < 1000 {
		t.Errorf("%d types: too few", len(seen))
	}
}

// filled is a value of a struct with something in what can be empty.
func filled(t *Type) reflect.Value {
	v := reflect.New(t.Go).Elem()
	for i := range t.Members {
		switch f := t.Members[i].In(v); f.Kind() {
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Map:
			f.Set(reflect.MakeMap(f.Type()))
		case reflect.String:
			f.SetString("x")
		case reflect.Bool:
			f.SetBool(true)
		}
	}
	return v
}

func TestTypes(t *testing.T) {
	pod := Of(reflect.TypeFor[corev1.Pod]())
	if pod != Of(reflect.TypeFor[*corev1.Pod]()).Bare() || pod.Member("spec").Type != Of(reflect.TypeFor[corev1.PodSpec]()) {
		t.Error("a type has more than one tree")
	}
	spec, meta := pod.Member("spec").Type, pod.Member("metadata").Type
	if pod.Holds != HoldsQuantity|HoldsNull|HoldsOwn || meta.Holds&HoldsQuantity != 0 {
		t.Errorf("a pod holds %b, its metadata %b", pod.Holds, meta.Holds)
	}
	if n := pod.Numbered(2); n != 2 || pod.Fields[n].Name != "spec" || pod.Numbered(0) != -1 || pod.Numbered(999) != -1 || pod.Numbered(5000) != -1 {
		t.Error("numbers of protobuf")
	}
	if f := spec.Member("containers"); !f.Merge || f.MergeKey.Name != "name" || f.Unusual || f.Optional {
		t.Errorf("containers: %+v", f)
	}
	if f := meta.Member("finalizers"); !f.Merge || f.MergeKey != nil || f.Unusual || !f.Optional {
		t.Errorf("finalizers: %+v", f)
	}
	if f := spec.Member("tolerations"); f.Merge || f.Unusual {
		t.Errorf("tolerations: %+v", f)
	}
	if f := spec.Member("volumes"); f.Type.Elem.Member("emptyDir") == nil || f.Type.Elem.Member("VolumeSource") != nil {
		t.Error("an embedded struct")
	}
	type odd struct {
		Time metav1.Time `json:",omitzero"`
		Text int         `json:"text,string"`
	}
	if o := Of(reflect.TypeFor[odd]()); o.Holds&HoldsForeign == 0 || o.Member("Time") == nil {
		t.Errorf("%+v", o)
	}
	for text, ok := range map[string]bool{"1": true, "1e999": true, "1e1000": false, "1E-9999": false, strings.Repeat("1", 10_001): false} {
		if err := BoundQuantity(text); (err == nil) != ok {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}
