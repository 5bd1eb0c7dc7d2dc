package apiextensions

import (
	"fmt"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// stored returns the storage format of definitions, the same as kube-apiserver's: JSON of v1beta1, although that
// version is no longer served.
func stored() *engine.Stored {
	return &engine.Stored{
		GroupVersion: apiextensionsv1beta1.SchemeGroupVersion, JSON: true,
		New:    func() engine.Object { return &apiextensionsv1beta1.CustomResourceDefinition{} },
		Encode: toBeta, Decode: fromBeta,
	}
}

// toBeta converts an object. The result shares memory with it and is read-only.
func toBeta(obj engine.Object) (engine.Object, error) {
	var hub apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(
		obj.(*apiextensionsv1.CustomResourceDefinition), &hub, nil); err != nil {
		return nil, fmt.Errorf("convert to v1beta1: %w", err)
	}
	out := &apiextensionsv1beta1.CustomResourceDefinition{}
	if err := apiextensionsv1beta1.Convert_apiextensions_CustomResourceDefinition_To_v1beta1_CustomResourceDefinition(&hub, out, nil); err != nil {
		return nil, fmt.Errorf("convert to v1beta1: %w", err)
	}
	return out, nil
}

func fromBeta(obj engine.Object) (engine.Object, error) {
	var hub apiextensions.CustomResourceDefinition
	in := obj.(*apiextensionsv1beta1.CustomResourceDefinition)
	// Objects stored before these defaults existed.
	apiextensionsv1beta1.SetDefaults_CustomResourceDefinitionSpec(&in.Spec)
	if err := apiextensionsv1beta1.Convert_v1beta1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(in, &hub, nil); err != nil {
		return nil, fmt.Errorf("convert from v1beta1: %w", err)
	}
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(&hub, out, nil); err != nil {
		return nil, fmt.Errorf("convert from v1beta1: %w", err)
	}
	return out, nil
}
