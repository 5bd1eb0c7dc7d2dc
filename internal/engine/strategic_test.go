package engine

import (
	"encoding/json"
	"errors"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

var errPanic = errors.New("the library panics")

// wholly applies a patch to the whole object as maps, as kube-apiserver does.
func wholly(current Object, body []byte, into Object) (strict string, err error) {
	defer func() {
		if recover() != nil { // at a list in a list
			err = errPanic
		}
	}()
	doc, err := runtime.DefaultUnstructuredConverter.ToUnstructured(current)
	if err != nil {
		return "", err
	}
	patch := map[string]any{}
	if _, err := unmarshalJSON(body, &patch, true); err != nil {
		return "", err
	}
	merged, err := strategicpatch.StrategicMergeMapPatch(doc, patch, into)
	if err != nil {
		return "", err
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(merged, into, true)
	if s, ok := runtime.AsStrictDecodingError(err); ok {
		return s.Error(), nil
	}
	return "", err
}

// TestStrategicMergeOfAPart patches random objects by what makes one of another, and by patches with directives at random
// places. The outcome is that of merging the whole object.
func TestStrategicMergeOfAPart(t *testing.T) {
	if testing.Short() {
		t.Skip("no goroutines meet here, and the race detector makes it fifty times slower")
	}
	r := filler{rand.New(rand.NewSource(1))}
	refused, strict, byPlan := 0, 0, 0
	for n := range patches {
		kind := patchedKinds[n%len(patchedKinds)]
		current := kind()
		r.fill(reflect.ValueOf(current).Elem(), 0)
		if f := current.GetFinalizers(); len(f) > 0 { // with one twice, the outcome is up to the capacity of a slice
			slices.Sort(f)
			current.SetFinalizers(slices.Compact(f))
		}
		other := current.DeepCopyObject().(Object)
		for range 1 + r.Intn(4) {
			r.change(reflect.ValueOf(other).Elem(), 0)
		}
		body, err := strategicpatch.CreateTwoWayMergePatch(encoded(t, current), encoded(t, other), kind())
		if err != nil || r.Intn(4) == 0 {
			body = r.patch(encoded(t, other))
		}
		before := string(encoded(t, current))
		want, got := kind(), kind()
		warned, wantErr := wholly(current.DeepCopyObject().(Object), body, want)
		if errors.Is(wantErr, errPanic) {
			if mergedByPlan(jsonobject.StrategicMergePatch, current, body, got) {
				t.Fatalf("patch %s is merged; the library panics", body)
			}
			continue
		}
		gotErr := strategicMerge(t.Context(), current, body, got, "Ignore")
		if mergedByPlan(jsonobject.StrategicMergePatch, current, body, kind()) {
			byPlan++
		}
		if (wantErr == nil) != (gotErr == nil) || wantErr == nil && string(encoded(t, got)) != string(encoded(t, want)) {
			t.Fatalf("patch %s of\n%s\n got %s %v\nwant %s %v", body, before, encoded(t, got), gotErr, encoded(t, want), wantErr)
		}
		if err := strategicMerge(t.Context(), current, body, kind(), "Strict"); wantErr == nil && (err != nil) != (warned != "") {
			t.Fatalf("patch %s: %v, want %q", body, err, warned)
		}
		if string(encoded(t, current)) != before {
			t.Fatalf("patch %s has changed the live object", body)
		}
		if wantErr != nil {
			refused++
		}
		if warned != "" {
			strict++
		}
	}
	if refused > patches/2 || refused == 0 || strict == 0 || byPlan < patches/2 {
		t.Errorf("%d patches of %d were refused, %d had unknown fields, and %d went by plan", refused, patches, strict, byPlan)
	}
	t.Logf("%d of %d by plan", byPlan, patches)
}

// patches is how many random patches are tried.
const patches = 6000

// patchedKinds make empty objects of kinds of many forms.
var patchedKinds = []func() Object{
	func() Object { return &corev1.Pod{} }, func() Object { return &corev1.Node{} }, func() Object { return &corev1.Service{} },
	func() Object { return &corev1.ConfigMap{} }, func() Object { return &corev1.ServiceAccount{} }, func() Object { return &appsv1.Deployment{} },
	func() Object { return &corev1.Secret{} }, func() Object { return &corev1.Namespace{} }, func() Object { return &corev1.PersistentVolume{} },
	func() Object { return &corev1.PersistentVolumeClaim{} }, func() Object { return &corev1.ResourceQuota{} }, func() Object { return &corev1.Event{} },
	func() Object { return &appsv1.StatefulSet{} }, func() Object { return &batchv1.CronJob{} }, func() Object { return &networkingv1.Ingress{} },
	func() Object { return &networkingv1.NetworkPolicy{} }, func() Object { return &autoscalingv2.HorizontalPodAutoscaler{} },
	func() Object { return &rbacv1.ClusterRole{} }, func() Object { return &storagev1.StorageClass{} }, func() Object { return &coordinationv1.Lease{} },
	func() Object { return &certificatesv1.CertificateSigningRequest{} }, func() Object { return &admissionregistrationv1.ValidatingWebhookConfiguration{} },
}

func encoded(t *testing.T, obj Object) []byte {
	b, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// filler fills objects with random values, of which there are few.
type filler struct{ *rand.Rand }

func (r filler) text() string { return []string{"a", "b", "c", "d", "TCP"}[r.Intn(5)] }

func (r filler) fill(v reflect.Value, depth int) {
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.Time{Time: []time.Time{{}, time.Unix(1700000000, 0)}[r.Intn(2)]}))
		return
	case resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse([]string{"1", "1000m", "2Gi"}[r.Intn(3)])))
		return
	case intstr.IntOrString:
		v.Set(reflect.ValueOf([]intstr.IntOrString{intstr.FromInt32(1), intstr.FromString("a")}[r.Intn(2)]))
		return
	case metav1.FieldsV1:
		v.Set(reflect.ValueOf(*metav1.NewFieldsV1(`{"f:a":{}}`)))
		return
	}
	some := depth < 8 && r.Intn(2+depth/2) == 0
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() && r.Intn(3) > 0 {
				r.fill(v.Field(i), depth+1)
			}
		}
	case reflect.Pointer:
		if v.SetZero(); some {
			v.Set(reflect.New(v.Type().Elem()))
			r.fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if v.SetZero(); some {
			v.Set(reflect.MakeSlice(v.Type(), r.Intn(4), 4))
			for i := range v.Len() {
				r.fill(v.Index(i), depth+1)
			}
		}
	case reflect.Map:
		if v.SetZero(); some {
			v.Set(reflect.MakeMap(v.Type()))
			for range r.Intn(4) {
				e := reflect.New(v.Type().Elem()).Elem()
				r.fill(e, depth+1)
				v.SetMapIndex(reflect.ValueOf(r.text()).Convert(v.Type().Key()), e)
			}
		}
	case reflect.String:
		v.SetString(r.text())
	case reflect.Bool:
		v.SetBool(r.Intn(2) == 0)
	default:
		if v.CanInt() {
			v.SetInt(int64(r.Intn(3)))
		} else if v.CanUint() {
			v.SetUint(uint64(r.Intn(3)))
		}
	}
}

// change fills a random field anew.
func (r filler) change(v reflect.Value, depth int) {
	switch {
	case v.Kind() == reflect.Struct && depth < 4 && v.NumField() > 0:
		if f := v.Field(r.Intn(v.NumField())); f.CanSet() {
			r.change(f, depth+1)
		}
	case v.Kind() == reflect.Slice && v.Len() > 0 && r.Intn(3) > 0:
		r.change(v.Index(r.Intn(v.Len())), depth+1)
	default:
		r.fill(v, depth)
	}
}

// patch makes a patch of a document: a part of it, with directives, nulls and unknown fields.
func (r filler) patch(doc []byte) []byte {
	of := map[string]any{}
	if err := json.Unmarshal(doc, &of); err != nil {
		panic(err)
	}
	r.spoil(of)
	b, err := json.Marshal(of)
	if err != nil {
		panic(err)
	}
	return b
}

func (r filler) spoil(of map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		v := of[name]
		switch below, isMap := v.(map[string]any); {
		case r.Intn(3) == 0:
			delete(of, name)
		case r.Intn(12) == 0:
			of[name] = nil
		case isMap:
			r.spoil(below)
		}
		if list, ok := v.([]any); ok && r.Intn(4) == 0 && !slices.ContainsFunc(list, func(it any) bool { _, ok := it.(string); return !ok }) {
			of["$setElementOrder/"+name] = list
		}
	}
	switch r.Intn(40) {
	case 0:
		of["$patch"] = []string{"replace", "delete", "x"}[r.Intn(3)]
	case 1:
		of["$retainKeys"] = []any{"a", "name"}
	case 2:
		of["$deleteFromPrimitiveList/finalizers"] = []any{"a"}
		delete(of, "finalizers") // with both, the outcome is up to the order of a map
		delete(of, "$setElementOrder/finalizers")
	case 3:
		of["unknown"] = "x"
	}
}
