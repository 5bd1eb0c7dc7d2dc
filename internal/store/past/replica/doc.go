// Package replica keeps a replica of the past in the database that several servers share, for one that starts without its own: on a new
// machine, or after it was away for longer than the log reaches back.
//
// One of the servers, the writer, adds what has changed every half minute. The changes lie in chunks, each of which is complete by itself
// (chunk.go), so that the oldest can be dropped at any time. A head says which there are and up to where they reach (head.go); whoever
// writes does so only if the head is the one that he has read, and takes over from a writer that has not written for some time (write.go).
// A server that begins with the replica goes on with the log where that ends (read.go). What is to be forgotten is told to all servers by a key of its
// own, and taken out of the chunks (forget.go).
package replica
