// Package object has what can be said of an API object by itself, without a server: its type as a tree, JSON, protobuf and CBOR,
// patches, field management, schemas, expressions, the gates of its fields, and the checks that kinds share. Nothing here knows who
// asks, where objects are stored, or that others exist.
package object
