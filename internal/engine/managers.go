package engine

import (
	"reflect"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// keepTimes lets obj, a change of old, have the managers of old if they differ
// in nothing but when, and nothing else differs: a change that changes nothing
// must not come to be one by its time.
func keepTimes(obj, old Object) {
	a, untyped := obj.(*unstructured.Unstructured)
	b, both := old.(*unstructured.Unstructured)
	if untyped && both {
		keepUntypedTimes(a, b)
		return
	}
	managers, times := old.GetManagedFields(), obj.GetManagedFields()
	if !sameButTimes(managers, times) || sameTimes(managers, times) {
		return
	}
	obj.SetManagedFields(managers)
	if !apiequality.Semantic.DeepEqual(obj, old) {
		obj.SetManagedFields(times)
	}
}

// sameTimes says that managers that are the same are so in their times too.
func sameTimes(a, b []metav1.ManagedFieldsEntry) bool {
	for i := range a {
		if !a[i].Time.Equal(b[i].Time) {
			return false
		}
	}
	return true
}

// keepUntypedTimes does it without making the managers of untyped objects
// typed, which costs more than the rest of an update.
func keepUntypedTimes(obj, old *unstructured.Unstructured) {
	metaA, _ := obj.Object["metadata"].(map[string]any)
	metaB, _ := old.Object["metadata"].(map[string]any)
	a, _ := metaA["managedFields"].([]any)
	b, _ := metaB["managedFields"].([]any)
	if len(a) == 0 || len(a) != len(b) {
		return
	}
	for n := range a {
		if !sameEntry(a[n], b[n]) {
			return
		}
	}
	metaA["managedFields"] = b
	if !apiequality.Semantic.DeepEqual(obj, old) {
		metaA["managedFields"] = a
	}
}

// sameEntry says that two untyped entries differ in nothing but their time.
func sameEntry(a, b any) bool {
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	if !isX || !isY || len(x) != len(y) {
		return false
	}
	for name, v := range x {
		if other, there := y[name]; !there || name != "time" && !reflect.DeepEqual(v, other) {
			return false
		}
	}
	return true
}
