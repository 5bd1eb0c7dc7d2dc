//go:build unix

package rotate

import (
	"os"
	"syscall"
)

// chown gives a file the owner of another one.
func chown(f *os.File, of os.FileInfo) error {
	s, ok := of.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return f.Chown(int(s.Uid), int(s.Gid))
}
