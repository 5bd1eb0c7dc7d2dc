// Package schema compiles the schema of a custom resource into one structure
// that prunes, defaults, coerces and validates the resource's objects, and that
// tells field management how they merge.
//
// Objects are what JSON decodes to: map[string]any, []any, string, int64,
// float64, bool, nil. What is found wrong with them is what kube-apiserver
// finds: the same fields, reasons and messages. Where kube-apiserver's order
// changes from call to call, as it walks Go maps, it is by field here.
//
// Every walk goes down the schema, which is finite, and takes time in
// proportion to the object, so neither a schema nor an object can hold it up.
// Expressions have a budget (see rules.go), patterns too (see pattern.go).
package schema
