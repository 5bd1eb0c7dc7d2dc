// Package schema compiles the schema of a custom resource into one structure that prunes, defaults, coerces and
// validates objects, and returns their merge type for field management.
//
// Objects are decoded JSON: map[string]any, []any, string, int64, float64, bool, nil. Validation errors equal
// kube-apiserver's: the same fields, reasons and messages. Where kube-apiserver's order varies because it ranges over
// Go maps, errors are ordered by field here.
//
// Every walk follows the schema, which is finite, and takes time linear in the size of the object, so neither a schema
// nor an object can make it slow. Expressions have a budget (see rules.go), and so do patterns (see pattern.go).
package schema
