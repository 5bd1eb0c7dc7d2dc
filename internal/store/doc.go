// Package store keeps API objects in a log and serves them from memory.
//
// DB (db.go) is what it needs of a log. Package etcd implements it, and so does
// package memory; package storetest judges both. Below, "etcd" stands for any.
//
// etcd's revisions are one ordered log. A Store follows it with one watch on
// the registry prefix (log.go) and hands each event to the View of its
// resource. A View (view.go) is a resource's current objects, ordered by key,
// loaded on first use, and the window of its recent events; gets, lists,
// watches and indexes read it. Writes (write.go) are one etcd transaction each,
// also of several objects of several views (Commit, txn.go), and never touch a
// View: a View changes only by events of the log.
//
// A Cluster (cluster.go) is several Stores, where some resources lie in other
// etcds, or one. It finds the Store of a key and adds nothing else.
//
// Because the log is global, "has this server seen revision R" is one number
// (Store.Revision), and everything that needs an answer as of some moment
// waits for it (Store.WaitFor).
//
// Guarantees for each reader:
//   - A read after Fresh sees every write acknowledged before Fresh was called.
//   - A snapshot at revision R holds all events up to R and none after it.
//   - A Watcher started after revision R delivers every later event of its
//     keys once, in revision order, however slow its reader and whatever
//     becomes of the connection to etcd, or ends with ErrCompacted.
//
// Items and events are shared by all readers and never change. Lock order:
// View.mu, then tasks.mu; Store.mu and the follower's are taken alone.
package store
