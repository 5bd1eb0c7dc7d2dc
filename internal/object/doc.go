// Package object contains what concerns an API object alone: its type as a tree, JSON, protobuf and CBOR, patches, field management,
// schemas, expressions, the feature gates of its fields, and the checks that several kinds share. Nothing here knows who sends a
// request, where objects are stored, or which other objects exist.
package object
