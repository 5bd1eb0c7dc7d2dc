//go:build unix

package space

import "golang.org/x/sys/unix"

// Of returns the room of a directory's file system.
func Of(dir string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Disk{}, err
	}
	block := uint64(s.Bsize) //nolint:unconvert // its type differs among systems
	return Disk{Free: uint64(s.Bavail) * block, Total: uint64(s.Blocks) * block}, nil
}
