package pebble

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The tree finds a changed byte in its files by its checksums. It cannot tell a log that was cut off from one that ends there. So a
// database that is closed in order leaves a seal: the revision that it was at. Whoever opens it must find that revision.
//
// After a crash there is no seal, and the end of the log counts as the end.

// errLost says that a database has less than when it was closed.
var errLost = errors.New("the database is damaged: its newest changes are not there any more")

func sealPath(files vfs.FS, dir string) string { return files.PathJoin(dir, "seal") }

// makeSeal seals a database that is closed.
func makeSeal(files vfs.FS, dir string, head int64) error {
	made := sealPath(files, dir) + ".new" // a seal that the power was cut in would say that the database is damaged
	f, err := files.Create(made, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("seal the database: %w", err)
	}
	_, err = f.Write(strconv.AppendInt(nil, head, 10))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("seal the database: %w", err)
	}
	return files.Rename(made, sealPath(files, dir))
}

// breakSeal compares the seal of a database, if there is one, with what it is now. Then it removes it, since the database changes from now
// on.
func breakSeal(files vfs.FS, dir string, head int64) error {
	path := sealPath(files, dir)
	f, err := files.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	b, err := io.ReadAll(io.LimitReader(f, 64))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	sealed, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || sealed > head { // a seal that was not removed for good has less
		return fmt.Errorf("%w: it was closed at revision %q and is at %d; remove %s to have it taken as it is", errLost, b, head, path)
	}
	return files.Remove(path)
}
