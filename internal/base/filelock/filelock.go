// Package filelock locks files among processes. The system drops a lock when its process ends, however it ends.
package filelock

import (
	"errors"
	"fmt"
	"os"
)

// ErrLocked says that another process has a lock that excludes the one wanted.
var ErrLocked = errors.New("locked by another process")

// Mode says with whom a lock is shared.
type Mode int

const (
	// Exclusive excludes all other locks.
	Exclusive Mode = iota
	// Shared excludes exclusive locks.
	Shared
)

// Lock creates the file if needed and locks it, without waiting. The file stays when the lock is given back.
func Lock(path string, m Mode) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f, m); err != nil {
		_ = f.Close()
		if errors.Is(err, ErrLocked) {
			return nil, err
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f.Close, nil
}
