// Package merge brings what was changed in a fork back into the control plane that it was made of.
//
// Each object is there three times: base is what the fork began with, ours what the fork has, theirs what the server has now. Objects
// are merged field by field (fields.go), by the types of field management: maps by their keys, lists by the keys of their items, and
// what is atomic as one. A field that only one side has changed is taken from it; one that both have changed, to different values, is
// a conflict. Fields that nobody owns in the fork (owners.go) were set by its server, such as the address of a service, and are left
// to this one. The owners themselves are merged like fields.
//
// What is to be written follows from all objects (objects.go), and is carried out as one bundle (resource.go): each object is decided as
// a request of the user who merges, and all are stored in one transaction.
package merge
