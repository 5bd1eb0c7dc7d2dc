// Package match decides which webhooks and policies apply to a write: by rules
// (operations, groups, versions, resources, scopes, names), by the labels of
// the object and by those of its namespace.
//
// A server may have hundreds of them, of which few apply to a given write. So
// all rules are evaluated once for each kind of write, and the result is cached
// (Table). Checks that depend on the object itself come after that.
package match
