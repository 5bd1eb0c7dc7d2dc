package engine

import (
	"reflect"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kanzen-io/kanzen/internal/object/equal"
)

// keepTimes gives obj the managers of old if the objects differ only in the
// times of their managers. So an update that changes nothing does not become a
// change by its timestamps.
func (e *Engine) keepTimes(obj, old Object) {
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
	if !equal.Objects(obj, old) {
		obj.SetManagedFields(times)
	}
}

// sameTimes says whether managers that are otherwise equal have equal times.
func sameTimes(a, b []metav1.ManagedFieldsEntry) bool {
	for i := range a {
		if !a[i].Time.Equal(b[i].Time) {
			return false
		}
	}
	return true
}

// keepUntypedTimes does the same for untyped objects. It does not convert their
// managers to Go types, which would cost more than the rest of an update.
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

// sameEntry says that two untyped entries are equal except for their times.
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
