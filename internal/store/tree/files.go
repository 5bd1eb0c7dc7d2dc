package tree

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Private is the system's files, which nobody else may read: the tree leaves that to the umask. A file is made before the tree
// opens it, so that there is no moment at which others could.
type Private struct{ vfs.FS }

const fileMode = 0o600

// Create is part of vfs.FS.
func (p Private) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	err := makeFile(name, os.O_EXCL)
	for errors.Is(err, fs.ErrExist) { // another file takes its place, as hard links may lead to it
		if err = p.Remove(name); err == nil || errors.Is(err, fs.ErrNotExist) {
			err = makeFile(name, os.O_EXCL)
		}
	}
	if err != nil {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, category)
}

// OpenReadWrite is part of vfs.FS.
func (p Private) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := makeFile(name, 0); err != nil {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, category, opts...)
}

// Lock is part of vfs.FS.
func (p Private) Lock(name string) (io.Closer, error) {
	if err := makeFile(name, 0); err != nil {
		return nil, err
	}
	return p.FS.Lock(name)
}

// Unwrap is part of vfs.FS.
func (p Private) Unwrap() vfs.FS { return p.FS }

// makeFile makes a file, unless there is one (an error with os.O_EXCL).
func makeFile(name string, flags int) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|flags, fileMode)
	if err != nil {
		return err
	}
	return f.Close()
}
