// Package openapi makes the OpenAPI documents of custom resources: a v3
// document for each group and version, and what a version adds to the one v2
// document. They are made when they are asked for and not kept.
//
// What all resources have in common (parameters, metadata) is taken from the
// documents of the built-in kinds.
package openapi
