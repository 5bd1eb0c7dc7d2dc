// Package transcode makes the JSON of API objects from their protobuf bytes, without the Go objects between: a tenth of the
// cost of decoding and encoding them.
//
// Compile makes a Plan of a Go type: for each message the fields in the order in which encoding/json writes them, each with
// its number, its JSON name and its form. Append follows the plan through the bytes: it finds the fields of a message, then
// writes them in the plan's order. The JSON is the same, byte for byte, as that of the Go object that the bytes decode to.
//
// What a plan cannot do is an error, and the caller goes through the Go object: types with a JSON form that this package does
// not know, and bytes that the generated code never writes (a message in two parts, raw JSON that is no JSON object).
package transcode
