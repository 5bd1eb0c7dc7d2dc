//go:build unix

package aggregator

import (
	"errors"
	"net"
	"syscall"
)

// quiet reports whether a connection is open and nothing has come that nobody has asked for, and whether that can be seen.
func quiet(c net.Conn) (still, seen bool) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false, false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false, true
	}
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		still = errors.Is(err, syscall.EAGAIN)
		return true // without waiting
	})
	return err == nil && still, true
}
