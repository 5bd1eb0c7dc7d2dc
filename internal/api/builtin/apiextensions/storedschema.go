package apiextensions

import (
	"bytes"
	"unsafe"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/json"
)

// This file passes schemas between v1 and v1beta1, which have the same fields in the same places (TestSchemasAreTheSame). The library copies
// them through its internal types, which are other ones only for JSON in schemas: there it is decoded. What comes out of that is called normal
// here. Other JSON goes the library's way.

// betaSchema is a schema as one of v1beta1: the same memory.
func betaSchema(s *apiextensionsv1.CustomResourceValidation) *apiextensionsv1beta1.CustomResourceValidation {
	return (*apiextensionsv1beta1.CustomResourceValidation)(unsafe.Pointer(s))
}

// v1Schema is the way back.
func v1Schema(s *apiextensionsv1beta1.CustomResourceValidation) *apiextensionsv1.CustomResourceValidation {
	return (*apiextensionsv1.CustomResourceValidation)(unsafe.Pointer(s))
}

// sameSchemas says that all versions have the same schema, or none.
func sameSchemas(versions []apiextensionsv1.CustomResourceDefinitionVersion) bool {
	for n := 1; n < len(versions); n++ {
		if !equality.Semantic.DeepEqual(versions[n].Schema, versions[0].Schema) {
			return false
		}
	}
	return true
}

// normal says that all JSON in the schemas of versions is as the library writes it.
func normal(versions []apiextensionsv1.CustomResourceDefinitionVersion) bool {
	for n := range versions {
		if !normalSchema(versions[n].Schema) {
			return false
		}
	}
	return true
}

func normalSchema(s *apiextensionsv1.CustomResourceValidation) bool {
	return s == nil || normalProps(s.OpenAPIV3Schema)
}

func normalProps(p *apiextensionsv1.JSONSchemaProps) bool {
	if p == nil {
		return true
	}
	for n := range p.Enum {
		if !normalJSON(p.Enum[n].Raw) {
			return false
		}
	}
	return normalValue(p.Default) && normalValue(p.Example) &&
		normalList(p.AllOf) && normalList(p.OneOf) && normalList(p.AnyOf) && normalProps(p.Not) &&
		normalMap(p.Properties) && normalMap(p.PatternProperties) && normalMap(p.Definitions) && normalDependencies(p.Dependencies) &&
		normalOrBool(p.AdditionalProperties) && normalOrBool(p.AdditionalItems) &&
		(p.Items == nil || normalProps(p.Items.Schema) && normalList(p.Items.JSONSchemas))
}

func normalList(all []apiextensionsv1.JSONSchemaProps) bool {
	for n := range all {
		if !normalProps(&all[n]) {
			return false
		}
	}
	return true
}

func normalMap(all map[string]apiextensionsv1.JSONSchemaProps) bool {
	for _, p := range each(all) {
		if !normalProps(p) {
			return false
		}
	}
	return true
}

func normalDependencies(all apiextensionsv1.JSONSchemaDependencies) bool {
	for _, d := range all {
		if !normalProps(d.Schema) {
			return false
		}
	}
	return true
}

func normalOrBool(p *apiextensionsv1.JSONSchemaPropsOrBool) bool {
	return p == nil || normalProps(p.Schema)
}

// normalValue says that there is no value, or a normal one. The library drops null.
func normalValue(j *apiextensionsv1.JSON) bool {
	return j == nil || len(j.Raw) > 0 && normalJSON(j.Raw)
}

// normalJSON says that JSON is as the library writes it, which is nothing for null.
func normalJSON(raw []byte) bool {
	if len(raw) == 0 || simple(raw) {
		return true
	}
	var value any
	if json.Unmarshal(raw, &value) != nil || value == nil {
		return false
	}
	again, err := json.Marshal(value)
	return err == nil && bytes.Equal(again, raw)
}

// simple says that JSON is a word, a text without escapes or a small whole number: most defaults and enums are, and they are normal.
func simple(raw []byte) bool {
	switch first, last := raw[0], len(raw)-1; {
	case first == '"' && last > 0:
		for _, c := range raw[1:last] {
			if c < ' ' || c > '~' || bytes.IndexByte([]byte(`"\<>&`), c) >= 0 {
				return false
			}
		}
		return raw[last] == '"'
	case first >= '1' && first <= '9' && len(raw) <= 18:
		for _, c := range raw {
			if c < '0' || c > '9' {
				return false
			}
		}
		return true
	}
	switch string(raw) {
	case "true", "false", "0":
		return true
	}
	return false
}
