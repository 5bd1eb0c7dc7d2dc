// Package pebble is the store's log on one machine, in a directory: an LSM tree (github.com/cockroachdb/pebble) with one
// write-ahead log, where etcd has a consensus of one member, a second log for it, and a B+tree. It keeps the same promises
// (package kv) for a fraction of the cost.
//
// What is in the tree (keys.go):
//
//	k KEY REVISION   a key after its change at a revision: newest first
//	r REVISION       which keys a transaction changed: the history, for watches and for compaction
//	e TIME KEY       a key that ends at a time
//	m NAME           how far the history is compacted
//
// A transaction (commit.go) is decided under one lock, which gives it the next revision and puts it into the tree's memory and
// its log. It waits for the disk outside of the lock, together with all others that have come by then (durable.go). Nobody is shown, by
// a read, a watch or a refused condition, what might not survive a power loss: readers see the tree as of the newest revision that is
// on disk.
//
// Watches (watch.go) read recent changes from memory, which all of them share (tail.go), and older ones from the history.
package pebble
