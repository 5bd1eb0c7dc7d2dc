package policy

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/common/types/ref"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// applied merges an apply configuration into an object. The fields get no
// manager, so a later update by a client may drop them.
func applied(a *admission.Attributes, obj runtime.Object, v ref.Val) (runtime.Object, error) {
	config, ok := v.(*dynamic.ObjectVal)
	if !ok {
		return nil, fmt.Errorf("unsupported return type from ApplyConfiguration expression: %v", v.Type())
	}
	// CEL compiles "Object.spec{selector: Object.spec.wrong{}}", so the names
	// are checked here.
	if err := config.CheckTypeNamesMatchFieldPathNames(); err != nil {
		return nil, fmt.Errorf("type mismatch: %w", err)
	}
	content, ok := config.Value().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("invalid return type: %T", v)
	}
	if a.Versions == nil {
		return nil, errors.New("type converter must not be nil")
	}
	patch := &unstructured.Unstructured{Object: content}
	patch.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	merged, err := merge(a, obj, patch)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	return merged, nil
}

func merge(a *admission.Attributes, obj runtime.Object, patch *unstructured.Unstructured) (runtime.Object, error) {
	fields, err := a.Versions.Types()
	if err != nil {
		return nil, err
	}
	over, err := fields.ObjectToTyped(patch)
	if runtime.IsNotRegisteredError(err) {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("Resource kind %s not found. "+
			"There can be a delay between when CustomResourceDefinitions are created and when they are available.", patch.GroupVersionKind()))
	}
	if err != nil {
		return nil, fmt.Errorf("failed to convert patch object to typed object: %w", err)
	}
	if found := atomics(nil, over.Schema(), over.TypeRef(), over.AsValue()); len(found) > 0 {
		return nil, fmt.Errorf("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: %v", strings.Join(found, ", "))
	}
	live, err := fields.ObjectToTyped(obj, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("failed to convert original object to typed object: %w", err)
	}
	merged, err := live.Merge(over)
	if err != nil {
		return nil, fmt.Errorf("failed to merge patch: %w", err)
	}
	out, err := fields.TypedToObject(merged)
	if err != nil {
		return nil, fmt.Errorf("failed to convert typed object to object: %w", err)
	}
	return like(out, obj)
}

// like converts an object to the Go type of another.
func like(obj, other runtime.Object) (runtime.Object, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if _, want := other.(*unstructured.Unstructured); !ok || want {
		return obj, nil
	}
	out := reflect.New(reflect.TypeOf(other).Elem()).Interface().(runtime.Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, err
	}
	out.GetObjectKind().SetGroupVersionKind(other.GetObjectKind().GroupVersionKind())
	return out, nil
}

// atomics returns the paths of atomic values, which a configuration would
// replace as a whole, including fields that it does not have.
func atomics(path fieldpath.Path, s *schema.Schema, t schema.TypeRef, v value.Value) (out []string) {
	a, ok := s.Resolve(t)
	if !ok {
		return nil
	}
	if v.IsMap() && a.Map != nil {
		if a.Map.ElementRelationship == schema.Atomic {
			out = append(out, path.String())
		}
		v.AsMap().Iterate(func(key string, val value.Value) bool {
			if f, ok := a.Map.FindField(key); ok {
				out = append(out, atomics(append(path, fieldpath.PathElement{FieldName: &key}), s, f.Type, val)...)
			}
			return true
		})
	}
	if v.IsList() && a.List != nil {
		if a.List.ElementRelationship == schema.Atomic {
			out = append(out, path.String())
		}
		for i, list := 0, v.AsList(); i < list.Length(); i++ {
			out = append(out, atomics(append(path, fieldpath.PathElement{Index: &i}), s, a.List.ElementType, list.At(i))...)
		}
	}
	return out
}
