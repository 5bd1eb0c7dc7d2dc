//go:build !linux

package sqlite

import (
	"errors"
	"os"
)

// Other systems have no locks of open files, or other ones. Reading a database in use without locks would give pages of different times.
var errNoLocks = errors.New("databases of SQLite can be read on Linux only")

func lock(*os.File, span, access) error { return errNoLocks }

func held(*os.File, span) (bool, error) { return false, errNoLocks }
