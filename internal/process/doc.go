// Package process has what a machine has once: the port, the data directory, the engine of storage and who watches over its
// room, proxies, what is compiled once. Control planes (package server) are made on it, each with its own prefix of keys; nothing
// in a process knows them.
package process
