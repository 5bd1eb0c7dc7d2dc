// Package match decides which webhooks and policies have a say in a write: by
// rules (operations, groups, versions, resources, scopes, names), by the labels
// of the object and by those of its namespace.
//
// A server may have hundreds of them, of which few concern any one write. So
// the rules of all of them are looked through once for each kind of write, and
// the outcome is kept (Table). What depends on the object itself comes after.
package match
