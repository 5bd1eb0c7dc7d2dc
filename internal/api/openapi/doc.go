// Package openapi serves the OpenAPI v2 and v3 documents of the API, and provides the field management schemas of the
// built-in kinds.
//
// The documents of the built-in groups are recorded once (see gen) and embedded compressed; each request decompresses
// them, and the result is not kept. Documents of custom resources and extension API servers come and go: a Set is the
// immutable list of all documents, and is replaced whole.
//
// A document is identified by a hash of its content. Clients cache it by that hash forever, so a Document's hash must
// change whenever its bytes do.
package openapi

//go:generate go run ./gen -peer ../../../bench/peer/bin
