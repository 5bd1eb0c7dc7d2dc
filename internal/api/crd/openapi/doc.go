// Package openapi generates the OpenAPI documents of custom resources: a v3 document for each group and version, and
// their additions to the v2 document. They are generated on demand and not kept.
//
// The common parts (parameters, metadata) come from the documents of the built-in kinds.
package openapi
