package engine

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// deduced deduces types from the objects themselves.
type deduced struct{ managedfields.TypeConverter }

func (deduced) TypeOf(runtime.Object) (*typed.ParseableType, error) {
	return &typed.DeducedParseableType, nil
}

func TestKeepUntypedTimes(t *testing.T) {
	object := func(time, manager, value string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": value, "metadata": map[string]any{"managedFields": []any{
			map[string]any{"manager": manager, "time": time, "fieldsV1": map[string]any{"f:spec": map[string]any{}}}}}}}
	}
	for _, c := range []struct {
		name, manager, value, want string
	}{
		{"nothing has changed", "m", "v", "then"}, {"a value has changed", "m", "w", "now"}, {"a manager has changed", "n", "v", "now"},
	} {
		obj := object("now", c.manager, c.value)
		new(Engine).keepTimes(obj, object("then", "m", "v"))
		entries, _, _ := unstructured.NestedSlice(obj.Object, "metadata", "managedFields")
		if got := entries[0].(map[string]any)["time"]; got != c.want {
			t.Errorf("%s: the time is that of %v, not of %s", c.name, got, c.want)
		}
	}
	bare := &unstructured.Unstructured{Object: map[string]any{}}
	new(Engine).keepTimes(bare, object("then", "m", "v"))
	if len(bare.Object) != 0 {
		t.Errorf("an object without metadata has become %v", bare.Object)
	}
}
