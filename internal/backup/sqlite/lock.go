package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// SQLite locks bytes of files among processes. In the database, a lock of all of shared is held by everybody who reads; a write lock of
// pending keeps new readers out, and one of reserved announces a writer. The index of the write-ahead log has locks of its own: checkpoint
// is held by who copies the log into the database, and a reader holds one of several read locks, which keep a writer from beginning the log
// anew.
var (
	pendingByte  = span{0x40000000, 1}
	reservedByte = span{0x40000001, 1}
	sharedBytes  = span{0x40000002, 510}

	checkpointByte = span{121, 1}
	lastReadByte   = span{127, 1} // readers look for a free one from the first on
)

// span is a range of bytes that is locked.
type span struct{ at, length int64 }

// access is with whom a lock is shared.
type access int

const (
	unlocked access = iota
	shared
	exclusive
)

// errLocked says that another process has a lock that excludes the one wanted.
var errLocked = errors.New("locked by another process")

// lockPatience bounds how long Open waits for a lock. A checkpoint or a commit takes less.
const lockPatience = 10 * time.Second

// lockWithin takes a lock, and waits for it.
func lockWithin(ctx context.Context, f *os.File, s span, a access, patience time.Duration) error {
	for began := time.Now(); ; {
		err := lock(f, s, a)
		if err == nil || !errors.Is(err, errLocked) {
			return err
		}
		if time.Since(began) > patience {
			return fmt.Errorf("%s: %w for %v", f.Name(), err, patience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// lockShared takes the lock of a reader of the database. pending is held meanwhile, so that a writer that waits for readers to end is not
// held up by new ones.
func lockShared(ctx context.Context, f *os.File) error {
	if err := lockWithin(ctx, f, pendingByte, shared, lockPatience); err != nil {
		return err
	}
	err := lockWithin(ctx, f, sharedBytes, shared, lockPatience)
	return errors.Join(err, lock(f, pendingByte, unlocked))
}
