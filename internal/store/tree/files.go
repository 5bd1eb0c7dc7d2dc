package tree

import (
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Private is the system's files, which nobody else may read: the tree leaves that to the umask.
type Private struct{ vfs.FS }

const fileMode = 0o600

// Create is part of vfs.FS.
func (p Private) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.Create(name, category)
	return closed(f, err, name)
}

// OpenReadWrite is part of vfs.FS.
func (p Private) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := p.FS.OpenReadWrite(name, category, opts...)
	return closed(f, err, name)
}

// Lock is part of vfs.FS.
func (p Private) Lock(name string) (io.Closer, error) {
	f, err := p.FS.Lock(name)
	return closed(f, err, name)
}

// Unwrap is part of vfs.FS.
func (p Private) Unwrap() vfs.FS { return p.FS }

// closed takes the rights of others to a file that was opened.
func closed[F io.Closer](f F, err error, name string) (F, error) {
	if err == nil {
		err = os.Chmod(name, fileMode)
		if err != nil {
			_ = f.Close()
		}
	}
	return f, err
}
