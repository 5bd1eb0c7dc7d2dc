package apiextensions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// Decode decodes a definition as it is stored.
func Decode(value []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	var is metav1.TypeMeta
	if err := json.Unmarshal(value, &is); err != nil {
		return nil, err
	}
	if is.APIVersion == apiextensionsv1.SchemeGroupVersion.String() {
		d := &apiextensionsv1.CustomResourceDefinition{}
		return d, json.Unmarshal(value, d)
	}
	in := &apiextensionsv1beta1.CustomResourceDefinition{}
	if err := json.Unmarshal(value, in); err != nil {
		return nil, err
	}
	out, err := fromBeta(in)
	if err != nil {
		return nil, err
	}
	return out.(*apiextensionsv1.CustomResourceDefinition), nil
}

// toBeta converts an object. The result shares memory with it and is read-only.
func toBeta(obj engine.Object) (engine.Object, error) {
	in := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !normal(in.Spec.Versions) {
		return convertToBeta(in)
	}
	// The library finds out whether all versions have the same schema, by which the stored form is another one.
	same := sameSchemas(in.Spec.Versions)
	bare := *in
	bare.Spec.Versions = slices.Clone(in.Spec.Versions)
	for n := range bare.Spec.Versions {
		if v := &bare.Spec.Versions[n]; v.Schema != nil {
			v.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{}}
			if !same {
				v.Schema.OpenAPIV3Schema.ID = strconv.Itoa(n)
			}
		}
	}
	out, err := convertToBeta(&bare)
	switch {
	case err != nil:
		return nil, err
	case !same:
		for n := range out.Spec.Versions {
			out.Spec.Versions[n].Schema = betaSchema(in.Spec.Versions[n].Schema)
		}
	case len(in.Spec.Versions) > 0:
		out.Spec.Validation = betaSchema(in.Spec.Versions[0].Schema)
	}
	return out, nil
}

// fromBeta converts an object, whose memory the result has afterwards.
func fromBeta(obj engine.Object) (engine.Object, error) {
	in := obj.(*apiextensionsv1beta1.CustomResourceDefinition)
	// Objects stored before these defaults existed.
	apiextensionsv1beta1.SetDefaults_CustomResourceDefinitionSpec(&in.Spec)
	schemas := make([]*apiextensionsv1.CustomResourceValidation, len(in.Spec.Versions))
	for n := range schemas {
		schemas[n] = v1Schema(in.Spec.Versions[n].Schema)
	}
	of := v1Schema(in.Spec.Validation)
	if !normalSchema(of) || slices.ContainsFunc(schemas, func(s *apiextensionsv1.CustomResourceValidation) bool { return !normalSchema(s) }) {
		return convertFromBeta(in)
	}
	bare := *in
	bare.Spec.Validation, bare.Spec.Versions = nil, slices.Clone(in.Spec.Versions)
	for n := range schemas {
		bare.Spec.Versions[n].Schema = nil
		if of != nil { // then it is that of all versions
			schemas[n] = of
		}
	}
	out, err := convertFromBeta(&bare)
	if err != nil {
		return nil, err
	}
	for n := range out.Spec.Versions {
		out.Spec.Versions[n].Schema = schemas[n]
	}
	return out, nil
}

// convertToBeta converts an object by the library's way, which copies a schema twice.
func convertToBeta(in *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1beta1.CustomResourceDefinition, error) {
	var hub apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(in, &hub, nil); err != nil {
		return nil, fmt.Errorf("convert to v1beta1: %w", err)
	}
	out := &apiextensionsv1beta1.CustomResourceDefinition{}
	if err := apiextensionsv1beta1.Convert_apiextensions_CustomResourceDefinition_To_v1beta1_CustomResourceDefinition(&hub, out, nil); err != nil {
		return nil, fmt.Errorf("convert to v1beta1: %w", err)
	}
	return out, nil
}

// convertFromBeta is the way back.
func convertFromBeta(in *apiextensionsv1beta1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	var hub apiextensions.CustomResourceDefinition
	if err := apiextensionsv1beta1.Convert_v1beta1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(in, &hub, nil); err != nil {
		return nil, fmt.Errorf("convert from v1beta1: %w", err)
	}
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(&hub, out, nil); err != nil {
		return nil, fmt.Errorf("convert from v1beta1: %w", err)
	}
	return out, nil
}
