package crd

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Call posts a request to a webhook and decodes its answer into response.
type Call func(ctx context.Context, w *apiextensionsv1.WebhookClientConfig, request, response any) error

// converter converts objects to another version. It may change its arguments; it returns the same number of objects, in the
// same order.
type converter func(ctx context.Context, objs []object, to string) ([]object, error)

// converterOf returns what converts a definition's objects between its versions.
func (s *Server) converterOf(d *apiextensionsv1.CustomResourceDefinition) converter {
	if c := d.Spec.Conversion; c != nil && c.Strategy == apiextensionsv1.WebhookConverter && c.Webhook != nil {
		w := &webhook{call: s.Call, config: c.Webhook, timeout: conversionTimeout, crd: d.Name, metrics: s.Metrics}
		return w.convert
	}
	return relabel
}

// relabel is the conversion None: the versions differ only in their name.
func relabel(_ context.Context, objs []object, to string) ([]object, error) {
	for _, u := range objs {
		u.SetAPIVersion(to)
	}
	return objs, nil
}

// typeConverter provides field management with the types of a version's objects.
type typeConverter struct {
	serving *serving
	own     *typed.ParseableType // nil: deduced from each object
}

// ObjectToTyped is part of managedfields.TypeConverter.
func (t typeConverter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	p, err := t.TypeOf(obj)
	if err != nil {
		return nil, err
	}
	return typed.AsTyped(valueOf(obj.(object).Object), p.Schema, p.TypeRef, opts...)
}

// TypeOf returns the type of an object's version.
func (t typeConverter) TypeOf(obj runtime.Object) (*typed.ParseableType, error) {
	u, ok := obj.(object)
	if !ok {
		return nil, fmt.Errorf("a custom resource cannot be a %T", obj)
	}
	version, err := t.serving.versionOf(u)
	if err != nil {
		return nil, err
	}
	c, err := t.serving.schema(version)
	if err != nil {
		return nil, err
	}
	if p := c.Type(); p != nil {
		return p, nil
	}
	return &typed.DeducedParseableType, nil
}

// TypedToObject is part of managedfields.TypeConverter.
func (t typeConverter) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	m, ok := v.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a custom resource cannot be a %T", v.AsValue().Unstructured())
	}
	return &unstructured.Unstructured{Object: m}, nil
}
