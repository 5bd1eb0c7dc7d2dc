package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kanzen-io/kanzen/internal/base/filelock"
)

// ErrInUse says that another process uses the data directory.
var ErrInUse = errors.New("data directory is in use by another process")

// lockDir creates dir if needed and locks it for this process.
func lockDir(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	unlock, err = filelock.Lock(filepath.Join(dir, "lock"), filelock.Exclusive)
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("%s: %w", dir, ErrInUse)
	}
	return unlock, err
}
