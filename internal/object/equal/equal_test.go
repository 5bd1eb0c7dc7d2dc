package equal

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
)

// filler makes random objects, with values that are equal in more than one form.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse([]string{"1", "1000m", "0", "2Gi", "2048Mi"}[c.Intn(5)])
		},
		func(t *metav1.Time, c randfill.Continue) {
			t.Time = time.Unix(int64(c.Intn(2)), 0).In([]*time.Location{time.UTC, time.FixedZone("east", 3600)}[c.Intn(2)])
		},
		func(t *metav1.MicroTime, c randfill.Continue) { t.Time = time.UnixMicro(int64(c.Intn(2))).UTC() },
		func(f *metav1.FieldsV1, c randfill.Continue) { f.SetRawString(fmt.Sprintf(`{"f:%d":{}}`, c.Intn(2))) },
		func(j *apiextensionsv1.JSON, c randfill.Continue) { j.Raw = fmt.Appendf(nil, "%d", c.Intn(2)) },
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = fmt.Appendf(nil, "%d", c.Intn(2)) },
	)
}

// changed sets a random field somewhere in v anew.
func changed(r *rand.Rand, f *randfill.Filler, v reflect.Value) {
	for {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() && r.Intn(8) > 0 {
				v = v.Elem()
				continue
			}
		case reflect.Struct:
			if n := v.NumField(); n > 0 && v.Type() != reflect.TypeFor[resource.Quantity]() && v.Type() != reflect.TypeFor[metav1.Time]() &&
				v.Type() != reflect.TypeFor[metav1.MicroTime]() && v.Type() != reflect.TypeFor[metav1.FieldsV1]() {
				v = v.Field(r.Intn(n))
				continue
			}
		case reflect.Slice:
			switch {
			case v.Len() == 0 && r.Intn(2) == 0:
				v.Set(reflect.MakeSlice(v.Type(), 0, 0))
				return
			case v.Len() > 0 && r.Intn(8) > 0:
				v = v.Index(r.Intn(v.Len()))
				continue
			}
		case reflect.Map:
			if v.Len() == 0 && r.Intn(2) == 0 {
				v.Set(reflect.MakeMap(v.Type()))
				return
			}
		case reflect.Interface:
			return
		}
		f.Fill(v.Addr().Interface())
		return
	}
}

// What the library takes for equal is equal, and nothing else.
func TestAgreesWithLibrary(t *testing.T) {
	for _, kind := range []runtime.Object{
		&corev1.Pod{}, &corev1.Node{}, &corev1.Service{}, &appsv1.Deployment{}, &appsv1.ControllerRevision{}, &apiextensionsv1.CustomResourceDefinition{},
	} {
		t.Run(reflect.TypeOf(kind).Elem().Name(), func(t *testing.T) {
			count := [2]int{}
			for seed := range int64(300) {
				r, f := rand.New(rand.NewSource(seed)), filler(seed)
				a := reflect.New(reflect.TypeOf(kind).Elem()).Interface().(runtime.Object)
				f.Fill(a)
				b := a.DeepCopyObject()
				for range 1 + r.Intn(3) {
					want := apiequality.Semantic.DeepEqual(a, b)
					if got := Objects(a, b); got != want {
						left, _ := json.Marshal(a)
						right, _ := json.Marshal(b)
						t.Fatalf("seed %d: got %v, want %v\n%s\n%s", seed, got, want, left, right)
					}
					if want {
						count[0]++
					} else {
						count[1]++
					}
					changed(r, f, reflect.ValueOf(b).Elem())
				}
			}
			if count[0] < 100 || count[1] < 50 {
				t.Errorf("%d were equal, %d were not: too few", count[0], count[1])
			}
		})
	}
}

func TestValues(t *testing.T) {
	one, nothing := int32(1), map[string]string(nil)
	for _, c := range []struct {
		name string
		a, b any
		want bool
	}{
		{"types", &corev1.Pod{}, &corev1.Node{}, false},
		{"nil and empty map", &corev1.ConfigMap{Data: nothing}, &corev1.ConfigMap{Data: map[string]string{}}, true},
		{"nil and empty bytes", &corev1.Secret{Data: map[string][]byte{"a": nil}}, &corev1.Secret{Data: map[string][]byte{"a": {}}}, true},
		{"other bytes", &corev1.Secret{Data: map[string][]byte{"a": {1}}}, &corev1.Secret{Data: map[string][]byte{"a": {2}}}, false},
		{"other key", &corev1.ConfigMap{Data: map[string]string{"a": ""}}, &corev1.ConfigMap{Data: map[string]string{"b": ""}}, false},
		{"nil and pointer", &appsv1.DeploymentSpec{}, &appsv1.DeploymentSpec{Replicas: &one}, false},
		{"quantities", &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1000m")}},
			&corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}, true},
		{"what an interface holds", &runtime.RawExtension{Object: &corev1.Pod{}}, &runtime.RawExtension{Object: &corev1.Pod{}}, true},
		{"another in an interface", &runtime.RawExtension{Object: &corev1.Pod{}}, &runtime.RawExtension{Object: &corev1.Node{}}, false},
		{"nothing in an interface", &runtime.RawExtension{}, &runtime.RawExtension{Object: &corev1.Node{}}, false},
	} {
		if got := Objects(c.a, c.b); got != c.want || got != apiequality.Semantic.DeepEqual(c.a, c.b) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	moment := time.Unix(1, 0)
	if later := moment.Add(1); !Objects(&moment, &moment) || Objects(&moment, &later) {
		t.Error("fields that are not exported")
	}
}

func BenchmarkPodSpec(b *testing.B) {
	spec := &corev1.PodSpec{}
	for n := range 3 {
		c := corev1.Container{Name: fmt.Sprint(n), Image: "image", Args: []string{"a", "b", "c"},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}}}
		for k := range 6 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint(k), Value: "value"})
		}
		spec.Containers = append(spec.Containers, c)
	}
	other := spec.DeepCopy()
	for name, f := range map[string]func() bool{
		"plan":    func() bool { return Objects(spec, other) },
		"library": func() bool { return apiequality.Semantic.DeepEqual(*spec, *other) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !f() {
					b.Fatal("not equal")
				}
			}
		})
	}
}
