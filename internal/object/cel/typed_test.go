package cel

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"
)

// filler makes random objects, many of whose fields are empty in one way or another.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 2).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = []resource.Quantity{{}, resource.MustParse("1000m"), resource.MustParse("2048Mi")}[c.Intn(3)]
		},
		func(n *intstr.IntOrString, c randfill.Continue) {
			*n = []intstr.IntOrString{{}, intstr.FromInt32(8), intstr.FromString("25%")}[c.Intn(3)]
		},
		func(t *metav1.Time, c randfill.Continue) {
			t.Time = []time.Time{{}, time.Unix(7, 9).In(time.FixedZone("east", 3600))}[c.Intn(2)]
		},
		func(t *metav1.MicroTime, c randfill.Continue) { t.Time = []time.Time{{}, time.UnixMicro(7)}[c.Intn(2)] },
		func(f *metav1.FieldsV1, c randfill.Continue) { f.SetRawString(fmt.Sprintf(`{"f:%d":{}}`, c.Intn(2))) },
		func(j *apiextensionsv1.JSON, c randfill.Continue) {
			j.Raw = []byte([]string{`null`, `1`, `1.5`, `{"a":[1,"b",{}]}`}[c.Intn(4)])
		},
		func(r *runtime.RawExtension, c randfill.Continue) {
			r.Raw = [][]byte{nil, []byte(`{"kind":"A","n":1}`)}[c.Intn(2)]
		},
	)
}

// TestTyped compares objects of all kinds with the maps that their JSON is.
func TestTyped(t *testing.T) {
	kinds, compared := scheme.Scheme.AllKnownTypes(), 0
	for i, gvk := range slices.SortedFunc(maps.Keys(kinds), func(a, b schema.GroupVersionKind) int {
		return slices.Compare([]string{a.Group, a.Version, a.Kind}, []string{b.Group, b.Version, b.Kind})
	}) {
		obj := reflect.New(kinds[gvk]).Interface().(runtime.Object)
		if _, ok := obj.(metav1.Object); !ok {
			continue
		}
		filler(int64(i)).Fill(obj)
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Fatalf("%v: %v", gvk, err)
		}
		same(t, gvk.String(), Typed(obj), types.NewStringInterfaceMap(types.DefaultTypeAdapter, m))
		compared++
	}
	if compared < 100 {
		t.Errorf("only %d kinds were compared", compared)
	}
}

// same compares a value with what it is to be, in each way in which expressions look at values.
func same(t *testing.T, at string, got, want ref.Val) {
	t.Helper()
	if got.Type() != want.Type() {
		t.Errorf("%s: %v of type %v, want %v of type %v", at, got, got.Type(), want, want.Type())
		return
	}
	switch want := want.(type) {
	case traits.Mapper:
		for it := want.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			item, ok := got.(traits.Mapper).Find(key)
			if !ok || got.(traits.Mapper).Contains(key) != types.True {
				t.Errorf("%s has no %v", at, key)
				continue
			}
			same(t, fmt.Sprint(at, ".", key.Value()), item, want.Get(key))
			same(t, fmt.Sprint(at, ".", key.Value()), got.(traits.Mapper).Get(key), item)
		}
		for _, f := range fieldsOf(got) {
			if _, ok := want.Find(types.String(f)); !ok && got.(traits.Mapper).Contains(types.String(f)) != types.False {
				t.Errorf("%s has %s", at, f)
			}
		}
	case traits.Lister:
		for i := types.Int(0); i < want.Size().(types.Int) && i < got.(traits.Lister).Size().(types.Int); i++ {
			same(t, fmt.Sprint(at, "[", i, "]"), got.(traits.Lister).Get(i), want.Get(i))
		}
	}
	if s, ok := want.(traits.Sizer); ok && s.Size() != got.(traits.Sizer).Size() {
		t.Errorf("%s has a size of %v, want %v", at, got.(traits.Sizer).Size(), s.Size())
	}
	if got.Equal(want) != types.True || want.Equal(got) != types.True {
		t.Errorf("%s: %v, want %v", at, got.Value(), want.Value())
	}
}

// fieldsOf are the names of all fields of a struct that is a map.
func fieldsOf(v ref.Val) (names []string) {
	if f, ok := v.(*fields); ok {
		for i := range f.t.Members {
			names = append(names, f.t.Members[i].Name)
		}
	}
	return names
}

// TestTypedExpressions asks of an object what needs more than its fields.
func TestTypedExpressions(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"app": "a"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i:1", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{"cpu": resource.MustParse("1000m")}}}}, HostNetwork: true}}
	changed := pod.DeepCopy()
	changed.Spec.HostNetwork = false
	c := NewCompiler()
	for _, expression := range []string{
		"object.kind == 'Pod' && object.metadata.name == 'p' && object.metadata.labels.app == 'a'",
		"object.spec == object.spec && object.spec != oldObject.spec && object.metadata == oldObject.metadata",
		"object.spec.exists(k, k == 'containers') && !object.spec.exists(k, k == 'volumes')",
		"object.spec.containers[0].size() == 3 && 'image' in object.spec.containers[0] && !('image' in object.spec)",
		"object.spec.containers == oldObject.spec.containers && object.spec.containers[0] in oldObject.spec.containers",
		"object.spec.containers.map(c, c.name) == ['c'] && object.spec.containers.all(c, !has(c.securityContext))",
		"quantity(object.spec.containers[0].resources.limits.cpu).isLessThan(quantity('2'))",
		"type(object.spec) == map && type(object.spec.containers) == list && object.?spec.?nodeName.orValue('none') == 'none'",
		"has(object.spec.hostNetwork) && !has(oldObject.spec.hostNetwork) && object.spec.hostNetwork",
		"{'containers': object.spec.containers}.containers == object.spec['containers']",
		"object.metadata.creationTimestamp == null || !has(object.metadata.creationTimestamp)",
	} {
		v, err, end := NewRun(t.Context(), inputs{ObjectInput: Typed(pod), OldObjectInput: Typed(changed)}, nil, 1000).Eval(c.Compile(expression, Scope{}, Bool))
		if err != nil || end != nil || v != types.True {
			t.Errorf("%s: %v, %v, %v", expression, v, err, end)
		}
	}
}
