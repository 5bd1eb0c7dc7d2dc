// Package fieldmanager keeps metadata.managedFields: who set which field of an object.
//
// It does for creates, updates, patches and server-side applies what the FieldManager of apimachinery's util/managedfields
// does, and the outcome is the same to the letter. It costs a small part of it:
//
//   - A write compares the old object with the new in one walk of both (compare.go), by the type of the kind (types.go) and
//     the Go types (apitype), without a value object for each field. Only what differs is written down.
//   - Sets of fields (set.go) are trees whose nodes come from a few large allocations.
//   - Sets are read from and written to JSON directly (decode.go, encode.go). A set that a write does not change keeps its
//     encoding.
//   - An apply (apply.go) walks what the configuration names, and nothing else of the object. The same walk merges it into a
//     copy of the live object (merge.go), in Go objects where the kind has them, and finds what changes. Where the manager
//     has applied fields before that it leaves out now, a walk of its former set removes those that nobody owns (prune.go).
//
// The library stays behind the same door. It does the writes that this package will not decide about:
//
//   - those that field management refuses, but for conflicts (the object does not fit its type, a list has an element
//     without a key), and updates whose managers the library drops;
//   - applies to objects with managers of another version than the one that is applied, as their fields are to be compared
//     and removed in that version;
//   - applies by a manager that has applied before, with fields that this way to write leaves out: the library may take away
//     items of lists with them;
//   - applies by kubectl to objects, or of objects, that have the annotation of its client-side apply;
//   - applies that change a value to one of another shape where a type allows several, or name items that a live list has
//     twice; that leave items without an owner of their key, or objects with nothing but empty lists;
//   - the few values that have no exact form here (walker.odd), and those that a decoder refuses.
//
// A write is decided before the object that has come is changed, so the library starts from that.
package fieldmanager
