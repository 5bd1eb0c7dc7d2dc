package resource

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// fill sets every field of a value, with lists and maps of one item.
func fill(v reflect.Value, r *rand.Rand) {
	if v.Type() == reflect.TypeFor[metav1.Time]() {
		v.Set(reflect.ValueOf(metav1.Unix(r.Int64N(1e9), 0)))
		return
	}
	if v.Type() == reflect.TypeFor[metav1.TypeMeta]() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), r)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), r)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), r)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, r)
		fill(value, r)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(string(rune('a' + r.IntN(26))))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1 + r.Int64N(100))
	case reflect.Uint8:
		v.SetUint(1 + r.Uint64N(100))
	}
}

// TestV1beta1KeepsAll has nothing of an object in which everything is set be lost on the way to v1 and back, nor from v1.
func TestV1beta1KeepsAll(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, k := range []struct {
		v    *engine.Version
		beta engine.Object
		hub  engine.Object
	}{
		{claimV1beta1(), &resourcev1beta1.ResourceClaim{}, &resourcev1.ResourceClaim{}},
		{templateV1beta1(), &resourcev1beta1.ResourceClaimTemplate{}, &resourcev1.ResourceClaimTemplate{}},
		{sliceV1beta1(Deps{}), &resourcev1beta1.ResourceSlice{}, &resourcev1.ResourceSlice{}},
	} {
		fill(reflect.ValueOf(k.beta).Elem(), r)
		hub, err := k.v.ToHub(t.Context(), k.beta)
		if err != nil {
			t.Fatal(err)
		}
		back, err := k.v.FromHub(t.Context(), hub)
		if err != nil || !apiequality.Semantic.DeepEqual(back, k.beta) {
			t.Errorf("%T: %v\n%s", k.beta, err, diff.Diff(k.beta, back))
		}
		fill(reflect.ValueOf(k.hub).Elem(), r)
		beta, err := k.v.FromHub(t.Context(), k.hub)
		if err != nil {
			t.Fatal(err)
		}
		again, err := k.v.ToHub(t.Context(), beta)
		if err != nil || !apiequality.Semantic.DeepEqual(again, k.hub) {
			t.Errorf("%T: %v\n%s", k.hub, err, diff.Diff(k.hub, again))
		}
	}
}

func TestV1beta1Defaults(t *testing.T) {
	c := &resourcev1beta1.ResourceClaim{}
	c.Spec.Devices.Requests = []resourcev1beta1.DeviceRequest{
		{Name: "one", DeviceClassName: "c"}, {Name: "any", FirstAvailable: []resourcev1beta1.DeviceSubRequest{{Name: "sub"}}},
	}
	v := claimV1beta1()
	v.Default(c)
	obj, err := v.ToHub(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	requests := obj.(*resourcev1.ResourceClaim).Spec.Devices.Requests
	if e := requests[0].Exactly; e == nil || e.Count != 1 || e.AllocationMode != resourcev1.DeviceAllocationModeExactCount {
		t.Errorf("exactly is %v", e)
	}
	if r := requests[1]; r.Exactly != nil || r.FirstAvailable[0].Count != 1 {
		t.Errorf("a request with alternatives is %v", r)
	}
	s := &resourcev1beta1.ResourceSlice{}
	s.Spec.Devices = []resourcev1beta1.Device{{Name: "d"}, {Name: "e", Basic: &resourcev1beta1.BasicDevice{Taints: []resourcev1beta1.DeviceTaint{{Key: "k"}}}}}
	sliceV1beta1(Deps{Now: func() time.Time { return time.Unix(1700000000, 0) }}).Default(s)
	if at := s.Spec.Devices[1].Basic.Taints[0].TimeAdded; at == nil || at.Unix() != 1700000000 {
		t.Errorf("a taint was added at %v", at)
	}
}
