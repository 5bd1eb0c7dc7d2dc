// Package api has what is served: the catalog and its sources, which are the built-in kinds, definitions of custom resources and
// extension API servers, and the documents that describe all of it. The engine serves them without knowing any by name.
package api
