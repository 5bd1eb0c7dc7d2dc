// Package api contains what is served: the catalog and its sources, which are the built-in kinds, custom resource definitions and
// extension API servers, and the documents that describe them. The engine serves all of these without knowing any by name.
package api
