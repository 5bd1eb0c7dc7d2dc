package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kanzen-io/kanzen/internal/base/filelock"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// madeByUs reports whether a directory without a mark has an authority of this program's: versions before 0.2 set no mark.
func madeByUs(dir string) bool { return pki.MadeAuthority(filepath.Join(dir, "pki")) }

// trees are the directories whose whole content is this program's.
var trees = []string{filepath.Join("etcd", "member"), "pebble", "history", "recorder"}

// files are this program's single files.
func files(dir string) []string {
	out := []string{filepath.Join(dir, "etcd", lockFile), filepath.Join(dir, "etcd", "seal.json")}
	return append(out, pki.Paths(filepath.Join(dir, "pki"))...)
}

// Resetting is a directory that is about to be removed. Close it if it is not.
type Resetting struct {
	dir    string
	unlock func() error
}

// Reset prepares to remove what this program made in a directory. It is an error if a server uses the directory, or if
// the directory is not this program's.
func Reset(dir string) (*Resetting, error) {
	m, err := readMark(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no data directory %s; name it with --data-dir", dir)
	}
	if m == nil && !madeByUs(dir) {
		return nil, fmt.Errorf("%s is no data directory of kanzen's: it has no %s; nothing was removed", dir, markFile)
	}
	unlock, err := Exclusive(dir)
	if err != nil {
		return nil, err
	}
	return &Resetting{dir, unlock}, nil
}

// Exclusive keeps servers off a directory until unlock is called. It is an error if one runs on it.
func Exclusive(dir string) (unlock func() error, err error) {
	unlock, err = filelock.Lock(filepath.Join(dir, lockFile), filelock.Exclusive)
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("%s is %w: a server runs on it; stop it first", dir, ErrInUse)
	}
	if err != nil {
		return nil, hint(dir, err)
	}
	if err := probe(filepath.Join(dir, "etcd", lockFile)); err != nil {
		return nil, errors.Join(fmt.Errorf("%s is %w: a server runs on it; stop it first", dir, ErrInUse), unlock())
	}
	return unlock, nil
}

// probe returns an error if another process has the lock.
func probe(path string) error {
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	unlock, err := filelock.Lock(path, filelock.Exclusive)
	if err != nil {
		return err
	}
	return unlock()
}

// Close gives the directory back as it is.
func (r *Resetting) Close() error { return r.unlock() }

// Remove removes what this program made, and the directories that are empty then. It returns the paths that stay because
// they are not this program's.
func (r *Resetting) Remove() (left []string, err error) {
	var errs []error
	for _, t := range trees {
		errs = append(errs, os.RemoveAll(filepath.Join(r.dir, t)))
	}
	for _, f := range files(r.dir) {
		errs = append(errs, ignoreMissing(os.Remove(f)))
	}
	for _, d := range []string{"etcd", "pki"} {
		names, err := os.ReadDir(filepath.Join(r.dir, d))
		if err == nil && len(names) == 0 {
			err = os.Remove(filepath.Join(r.dir, d))
		}
		errs = append(errs, ignoreMissing(err))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, r.unlock()) // the mark stays, so that it can be tried again
	}
	errs = []error{ignoreMissing(os.Remove(filepath.Join(r.dir, markFile))), r.unlock(), ignoreMissing(os.Remove(filepath.Join(r.dir, lockFile)))}
	names, err := os.ReadDir(r.dir)
	if err == nil && len(names) == 0 {
		err = os.Remove(r.dir)
	}
	for _, n := range names {
		left = append(left, filepath.Join(r.dir, n.Name()))
	}
	slices.Sort(left)
	return left, errors.Join(append(errs, ignoreMissing(err))...)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
