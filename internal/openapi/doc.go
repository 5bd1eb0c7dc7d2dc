// Package openapi serves the OpenAPI documents of the API, v2 and v3, and has
// the schemas for field management of the built-in kinds.
//
// The documents of the built-in groups are recorded once (see gen) and
// embedded compressed; they are unpacked when someone asks for them and not
// kept. Documents of custom resources and extension API servers come and go:
// a Set says what there is, never changes, and is replaced whole.
//
// A document is named by a hash of its content. Clients cache by that name for
// ever, so that a Document's hash must change whenever its bytes do.
package openapi

//go:generate go run ./gen -peer ../../bench/peer/bin
