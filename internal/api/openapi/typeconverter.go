package openapi

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// TypeConverter converts objects of the built-in kinds to typed values for field management, and back. It decodes the
// type of a kind on first use. It is safe for concurrent use.
type TypeConverter struct{ types *types }

var _ managedfields.TypeConverter = (*TypeConverter)(nil)

// NewTypeConverter returns a converter for the built-in kinds.
func NewTypeConverter() *TypeConverter { return &TypeConverter{types: readTypes(typesBin)} }

// Type returns the type of a kind, or nil if there is none.
func (c *TypeConverter) Type(gvk schema.GroupVersionKind) *typed.ParseableType {
	return c.types.of(gvk)
}

// TypeOf returns the type of an object.
func (c *TypeConverter) TypeOf(obj runtime.Object) (*typed.ParseableType, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	t := c.Type(gvk)
	if t == nil {
		// For this error, field management leaves such fields to their owners.
		return nil, runtime.NewNotRegisteredErrForKind("openapi", gvk)
	}
	return t, nil
}

// ObjectToTyped implements managedfields.TypeConverter.
func (c *TypeConverter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	t, err := c.TypeOf(obj)
	if err != nil {
		return nil, err
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return t.FromUnstructured(u.UnstructuredContent(), opts...)
	}
	// A Go value has exactly the fields of its type; the later comparison itself checks what is left to validate (keys
	// of lists).
	v, err := value.NewValueReflect(obj)
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 validating costs a tenth of a write, and the type of a Go value is its own
	return typed.AsTypedUnvalidated(goValue{v, obj}, t.Schema, t.TypeRef), nil
}

// goValue is the value of a Go object and remembers that object. Field management converts typed values to objects and
// back for every manager, mostly to the version that they already have.
type goValue struct {
	value.Value
	obj runtime.Object
}

// TypedToObject implements managedfields.TypeConverter.
func (c *TypeConverter) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	if g, ok := v.AsValue().(goValue); ok {
		return g.obj, nil
	}
	content, ok := v.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("typed value is a %T, not an object", v.AsValue().Unstructured())
	}
	return &unstructured.Unstructured{Object: content}, nil
}
