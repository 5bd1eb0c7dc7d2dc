package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes or gives back a lock without waiting. The lock belongs to the open file, not to the process, and excludes the locks of processes
// that SQLite takes.
func lock(f *os.File, s span, a access) error {
	l := flock(s, a)
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return errLocked
	}
	return err
}

// held reports whether another process has a lock there.
func held(f *os.File, s span) (bool, error) {
	l := flock(s, exclusive)
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l)
	return l.Type != unix.F_UNLCK, err
}

func flock(s span, a access) unix.Flock_t {
	kinds := [...]int16{unlocked: unix.F_UNLCK, shared: unix.F_RDLCK, exclusive: unix.F_WRLCK}
	return unix.Flock_t{Type: kinds[a], Start: s.at, Len: s.length}
}
