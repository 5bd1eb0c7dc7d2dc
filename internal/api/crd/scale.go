package crd

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// scaleOf returns the scale at the paths in the definition.
func scaleOf(d *apiextensionsv1.CustomResourceSubresourceScale) *engine.Scale {
	spec, status := path(d.SpecReplicasPath), path(d.StatusReplicasPath)
	var selector []string
	if p := d.LabelSelectorPath; p != nil && *p != "" {
		selector = path(*p)
	}
	s := &engine.Scale{
		Get: func(obj engine.Object) (replicas, current int32, sel string, err error) {
			n, found, err := unstructured.NestedInt64(content(obj), spec...)
			if err != nil {
				return 0, 0, "", err
			}
			have, _, err := unstructured.NestedInt64(content(obj), status...)
			if err != nil {
				return 0, 0, "", err
			}
			if selector != nil {
				if sel, _, err = unstructured.NestedString(content(obj), selector...); err != nil {
					return 0, 0, "", err
				}
			}
			if !found {
				err = engine.NoReplicas(d.SpecReplicasPath)
			}
			return int32(n), int32(have), sel, err
		},
		Set: func(obj engine.Object, replicas int32) error {
			return unstructured.SetNestedField(content(obj), int64(replicas), spec...)
		},
	}
	for i := range spec {
		s.Path = append(s.Path, fieldpath.PathElement{FieldName: &spec[i]})
	}
	return s
}
