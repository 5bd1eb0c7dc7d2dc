// Package space says how much room the disk of a directory has.
package space

// Disk is the room of a file system, in bytes.
type Disk struct {
	Free  uint64 // for users without special rights
	Total uint64
}
