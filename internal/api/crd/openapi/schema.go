package openapi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

const conventions = "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"

const (
	metadataText     = "Standard object's metadata. " + conventions + "#metadata"
	listMetadataText = "Standard list metadata. " + conventions + "#types-kinds"
	apiVersionText   = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. " + conventions + "#resources"
	kindText         = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. " + conventions + "#types-kinds"

	embeddedAPIVersionText = "apiVersion defines the versioned schema of this representation of an object. " + conventions + "#resources"
	embeddedKindText       = "kind is a string value representing the type of this object. In CamelCase. " + conventions + "#types-kinds"
)

func text(description string) object { return object{"type": "string", "description": description} }

// definitions returns the schemas of a kind and of its lists.
func (k *kind) definitions() object {
	list := object{
		"description": k.list + " is a list of " + k.name,
		"type":        "object",
		"required":    []string{"items"},
		"properties": object{
			"apiVersion": text(apiVersionText),
			"kind":       text(kindText),
			"metadata":   k.described(metaPackage+"ListMeta", listMetadataText),
			"items": object{
				"description": "List of " + k.plural + ". " + conventions,
				"type":        "array",
				"items":       k.ref(k.model(k.name)),
			},
		},
	}
	own := k.own()
	k.extend(own, k.name)
	k.extend(list, k.list)
	return object{k.model(k.name): own, k.model(k.list): list}
}

// extend adds the extensions for kind and selectable fields to the schema of a kind.
func (k *kind) extend(schema object, name string) {
	schema["x-kubernetes-group-version-kind"] = []any{object{"group": k.group, "version": k.version, "kind": name}}
	if len(k.selectable) == 0 {
		return
	}
	fields := make([]any, 0, len(k.selectable))
	for _, f := range k.selectable {
		fields = append(fields, object{"fieldPath": strings.TrimPrefix(f.JSONPath, ".")})
	}
	schema["x-kubernetes-selectable-fields"] = fields
}

// own returns the schema of the kind. It is only an object if there is no schema, or if v2 clients would reject unknown
// fields.
func (k *kind) own() object {
	schema := decoded(k.schema)
	if schema == nil || k.v2 && (k.preserve || isSet(schema, "x-kubernetes-preserve-unknown-fields")) {
		return object{"type": "object"}
	}
	if k.v2 {
		reduce(schema)
	} else {
		unfold(schema)
	}
	properties, _ := schema["properties"].(object)
	if properties == nil {
		properties = object{}
		schema["properties"] = properties
	}
	k.embed(schema)
	properties["metadata"] = k.described(metaPackage+"ObjectMeta", metadataText)
	properties["apiVersion"], properties["kind"] = text(apiVersionText), text(kindText)
	return schema
}

// decoded returns a copy of a schema as a JSON object.
func decoded(p any) (out object) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if d.Decode(&out) != nil {
		return nil
	}
	return out
}

func isSet(schema object, name string) bool { return schema[name] == true }

// parts calls f for the direct subschemas of a schema.
func parts(schema object, f func(object)) {
	for _, name := range []string{"items", "additionalProperties"} {
		if s, ok := schema[name].(object); ok {
			f(s)
		}
	}
	properties, _ := schema["properties"].(object)
	for _, s := range properties {
		if s, ok := s.(object); ok {
			f(s)
		}
	}
}

func withoutNulls(schema object) {
	for _, name := range []string{"default", "example"} {
		if v, ok := schema[name]; ok && v == nil {
			delete(schema, name)
		}
	}
}

// unfold allows both types for fields that are numbers or strings.
func unfold(schema object) {
	withoutNulls(schema)
	if isSet(schema, "x-kubernetes-int-or-string") {
		either := []any{object{"type": "integer"}, object{"type": "string"}}
		anyOf, hasAny := schema["anyOf"]
		allOf, _ := schema["allOf"].([]any)
		var first any
		if len(allOf) > 0 {
			if s, ok := allOf[0].(object); ok {
				first = s["anyOf"]
			}
		}
		switch {
		case reflect.DeepEqual(anyOf, any(either)), reflect.DeepEqual(first, any(either)):
		case hasAny:
			schema["allOf"] = append([]any{object{"anyOf": either}}, allOf...)
		default:
			schema["anyOf"] = either
		}
	}
	parts(schema, unfold)
}

// reduce removes what v2 cannot express, and what confuses its clients: the type of nullable values, and the known
// fields of a schema with unknown ones.
func reduce(schema object) {
	withoutNulls(schema)
	for _, name := range []string{"allOf", "oneOf", "anyOf", "not", "default"} {
		delete(schema, name)
	}
	preserves := isSet(schema, "x-kubernetes-preserve-unknown-fields")
	if isSet(schema, "nullable") {
		delete(schema, "type")
		delete(schema, "nullable")
		delete(schema, "items")
		delete(schema, "properties")
	}
	if preserves {
		delete(schema, "items")
		delete(schema, "properties")
	}
	if _, ok := schema["items"]; !ok && schema["type"] == "array" || preserves && schema["type"] == "object" {
		delete(schema, "type")
	}
	reduceRequired(schema)
	parts(schema, reduce)
}

// reduceRequired removes nullable fields from the required ones.
func reduceRequired(schema object) {
	required, _ := schema["required"].([]any)
	properties, _ := schema["properties"].(object)
	required = slices.DeleteFunc(required, func(name any) bool {
		s, _ := properties[name.(string)].(object)
		return isSet(s, "nullable")
	})
	if more, ok := schema["additionalProperties"].(object); ok && isSet(more, "nullable") {
		required = nil
	}
	if len(required) == 0 {
		delete(schema, "required")
	} else {
		schema["required"] = required
	}
}

// embed adds the standard fields to the schemas of embedded resources.
func (k *kind) embed(schema object) {
	parts(schema, k.embed)
	if !isSet(schema, "x-kubernetes-embedded-resource") || k.v2 && isSet(schema, "x-kubernetes-preserve-unknown-fields") {
		return
	}
	properties, _ := schema["properties"].(object)
	if properties == nil {
		properties = object{}
		schema["properties"] = properties
	}
	properties["apiVersion"], properties["kind"] = text(embeddedAPIVersionText), text(embeddedKindText)
	properties["metadata"] = k.described(metaPackage+"ObjectMeta", metadataText)
	required, _ := schema["required"].([]any)
	for _, name := range []string{"kind", "apiVersion"} {
		if !slices.Contains(required, any(name)) {
			required = append(required, name)
		}
	}
	schema["required"] = required
}
