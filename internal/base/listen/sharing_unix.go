//go:build unix

package listen

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func (s Sharing) apply(socket syscall.RawConn) (err error) {
	set := func(fd int, option int, on bool) error {
		if !on {
			return nil
		}
		return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1))
	}
	failed := socket.Control(func(fd uintptr) {
		err = errors.Join(set(int(fd), unix.SO_REUSEPORT, s.Port), set(int(fd), unix.SO_REUSEADDR, s.Address))
	})
	return errors.Join(failed, err)
}
