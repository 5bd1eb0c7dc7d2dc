package extension

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

// Version is a further version in which a kind is served. Objects are stored, validated and handed to functions in
// Server.Version. A version of another schema is made by VersionOf; one with a Name alone differs in nothing else.
type Version[T any] struct {
	// Name is the version: "v1beta1".
	Name string
	// Schema describes the objects in this version; nil: as VersionOf derives it, or as in Server.Version.
	Schema *apiextensionsv1.JSONSchemaProps
	// Columns of kubectl get; none: those of the kind.
	Columns []Column
	// Deprecated has clients warned, with Warning if that is not empty.
	Deprecated bool
	Warning    string

	up, down convert // nil: only the name differs
	err      error
}

// convert makes the content of an object in one version out of that in another.
type convert func(object map[string]any) (map[string]any, error)

// VersionOf is a version of a kind T whose objects are V: up converts them to T, down converts them back. Clients of
// either version see every object, so what only one of them can express must be kept, in an annotation for instance.
//
// The funcs need not set the metadata. If they copy it, the labels and annotations of the copy count.
func VersionOf[V, T any, P Object[V]](name string, up func(*V) (*T, error), down func(*T) (*V, error)) Version[T] {
	v := Version[T]{Name: name, up: converting(up), down: converting(down)}
	if _, ok := any(P(new(V))).(*unstructured.Unstructured); !ok {
		v.Schema, v.err = SchemaOf[V]()
	}
	return v
}

func converting[From, To any](f func(*From) (*To, error)) convert {
	return func(object map[string]any) (map[string]any, error) {
		from := new(From)
		text, err := jsonobject.Marshal(object)
		if err == nil {
			err = json.Unmarshal(text, from)
		}
		if err != nil {
			return nil, err
		}
		to, err := f(from)
		if err == nil && to == nil {
			err = errors.New("the conversion returned nothing")
		}
		if err != nil {
			return nil, err
		}
		if u, ok := any(to).(*unstructured.Unstructured); ok {
			return u.Object, nil // which may have no kind yet
		}
		if text, err = json.Marshal(to); err != nil {
			return nil, err
		}
		return jsonobject.Unmarshal(text)
	}
}

// further is a Version without its type.
type further struct {
	up, down convert
}

// serve adds a version to the definition of a kind.
func (v *Version[T]) serve(k *kind) error {
	switch {
	case v.err != nil:
		return fmt.Errorf("version %s: %w", v.Name, v.err)
	case v.Name == k.version || k.further[v.Name] != nil:
		return fmt.Errorf("version %s: it is there twice", v.Name)
	}
	stored := &k.definition.Spec.Versions[0]
	described := v.Schema
	if described == nil {
		described = stored.Schema.OpenAPIV3Schema
	}
	described = described.DeepCopy()
	described.Description = cmp.Or(described.Description, stored.Schema.OpenAPIV3Schema.Description)
	served := versionOf(v.Name, described, v.Columns)
	if len(v.Columns) == 0 {
		served.AdditionalPrinterColumns = stored.AdditionalPrinterColumns
	}
	if served.Deprecated = v.Deprecated; v.Deprecated && v.Warning != "" {
		served.DeprecationWarning = &v.Warning
	}
	k.definition.Spec.Versions = append(k.definition.Spec.Versions, served)
	k.further[v.Name] = &further{v.up, v.down}
	return nil
}

// versionOf describes a version as a definition does.
func versionOf(name string, described *apiextensionsv1.JSONSchemaProps, columns []Column) apiextensionsv1.CustomResourceDefinitionVersion {
	v := apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: described}}
	for _, c := range columns {
		column := apiextensionsv1.CustomResourceColumnDefinition{Name: c.Name, JSONPath: c.Path, Type: cmp.Or(c.Type, "string")}
		if c.Wide {
			column.Priority = 1
		}
		v.AdditionalPrinterColumns = append(v.AdditionalPrinterColumns, column)
	}
	if _, ok := described.Properties["status"]; ok {
		v.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	}
	return v
}

// convert returns an object in another version: by way of the stored one, as the author's funcs lead from and to that.
func (k *kind) convert(obj *unstructured.Unstructured, to string) (*unstructured.Unstructured, error) {
	from := obj.GroupVersionKind().Version
	content, steps := obj.DeepCopy().Object, []convert(nil)
	if f := k.further[from]; f != nil && from != to {
		steps = append(steps, f.up)
	}
	if f := k.further[to]; f != nil && from != to {
		steps = append(steps, f.down)
	}
	for _, step := range steps {
		if step == nil {
			continue
		}
		out, err := step(content)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = map[string]any{}
		}
		out["metadata"] = metadata(content["metadata"], out["metadata"])
		content = out
	}
	content["apiVersion"] = schema.GroupVersion{Group: k.definition.Spec.Group, Version: to}.String()
	content["kind"] = obj.GetKind()
	return &unstructured.Unstructured{Object: content}, nil
}

// metadata is the metadata of an object that was converted: what it was, with the labels and annotations that the
// conversion has set, if it has set any metadata.
func metadata(was, set any) any {
	before, _ := was.(map[string]any)
	after, _ := set.(map[string]any)
	if before == nil || after["name"] == nil && after["generateName"] == nil {
		return before
	}
	for _, name := range []string{"labels", "annotations"} {
		if after[name] != nil {
			before[name] = after[name]
		} else {
			delete(before, name)
		}
	}
	return before
}

// stored returns an object in the version in which the author's funcs know it.
func (k *kind) stored(obj engine.Object) (engine.Object, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || len(k.further) == 0 || u.GroupVersionKind().Version == k.version {
		return obj, nil
	}
	return k.convert(u, k.version)
}
