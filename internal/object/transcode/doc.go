// Package transcode makes the JSON of API objects from their protobuf bytes, without the Go objects between: a tenth of the
// cost of decoding and encoding them.
//
// Append walks the tree of the object's Go type (apitype), which has the fields of each message in the order in which
// encoding/json writes them: it finds the fields of a message by their numbers, then writes them in that order. Compile sees
// beforehand whether it can. The JSON is the same, byte for byte, as that of the Go object that the bytes decode to.
//
// What a plan cannot do is an error, and the caller goes through the Go object: types with a JSON form that this package does
// not know, and bytes that the generated code never writes (a message in two parts, raw JSON that is no JSON object).
package transcode
