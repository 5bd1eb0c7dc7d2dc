// Package aggregator is the Aggregator Server. It puts the groups and versions of extension API servers, which APIServices
// register, into the catalog, and passes their requests on.
//
// A Server follows the APIServices. Those of the same service with the same trust share a backend: its connections, and
// loops that check whether it answers (probe.go), ask what it serves (discovery.go) and fetch its OpenAPI documents
// (documents.go). No backend waits for another, and requests wait for none of the loops: a backend that hangs, crashes
// or lies affects its own groups and versions only.
//
// APIServices of what this server serves itself are created and kept by registration.go.
//
// Locks: Server.mu is held for lookups and changes of the index; nothing is called under it but the catalog, which has
// its own.
package aggregator
