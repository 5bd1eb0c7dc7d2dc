// Package peers makes one API of the servers of a cluster that do not serve the same: while it is upgraded, the new servers
// have resources that the old ones do not know, and clients reach any of them. A request for what only another server
// serves is passed on to that one, and the discovery document has what all of them serve. kube-apiserver does the same, by
// the same keys and headers (its gate UnknownVersionInteroperabilityProxy), so the servers may be of both kinds.
//
//   - leases.go: each server keeps a key in etcd with the address at which others reach it (Leases);
//   - roster.go: who the others are, by the leases of their identity, their addresses, and what they serve (Roster);
//   - fetch.go: what a server serves, asked of itself;
//   - owned.go: what all servers have in common, because it is defined by objects: never asked of another;
//   - proxy.go: requests that are passed on;
//   - merge.go: the discovery documents of several servers as one.
//
// A request is authenticated and authorized where it arrives, and again by the server that it is passed on to, for the user
// that the first one names. One that was passed on says so in a header, and is not passed on again; a client that sends the
// header itself only does without the other servers.
package peers
