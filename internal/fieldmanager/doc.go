// Package fieldmanager keeps metadata.managedFields: who set which field of an object.
//
// It does for creates, updates and patches what the FieldManager of apimachinery's util/managedfields does, and the outcome
// is the same to the letter. It costs a small part of it:
//
//   - A write compares the old object with the new in one walk of both (compare.go), by the type of the kind (types.go) and
//     the Go types (gotype.go), without a value object for each field. Only what differs is written down.
//   - Sets of fields (set.go) are trees whose nodes come from a few large allocations.
//   - Sets are read from and written to JSON directly (decode.go, encode.go). A set that a write does not change keeps its
//     encoding.
//   - An apply of what is applied already ends before anything is merged (reapply.go).
//
// The library stays behind the same door. It does every other apply, and it does the writes that this package will not
// decide about: those that field management refuses (the object does not fit its type, a list has an element without a
// key), whose managers the library drops, and the few values that have no exact form here (walker.odd). An update is
// decided before the object is changed, so the library starts from what has come.
package fieldmanager
