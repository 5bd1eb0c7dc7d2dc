// Package datadir keeps a server's data directory: it marks the directories that belong to this program, refuses those
// that a newer version has written, keeps others from removing what a running server uses, and removes what it made.
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/kanzen-io/kanzen/internal/base/filelock"
	"github.com/kanzen-io/kanzen/internal/base/version"
)

const (
	// markFile is the file by which a directory is known as this program's.
	markFile = "kanzen.json"
	lockFile = "lock"
)

// mark is the content of markFile: the versions that wrote the directory last.
type mark struct {
	Kanzen     string `json:"kanzen"`
	Kubernetes string `json:"kubernetes"`
}

// ErrInUse says that a server uses the directory.
var ErrInUse = errors.New("in use")

// Open creates a directory if needed, and marks it. It is an error if a newer version has written it, or if it is being
// removed, and if it has files of others and was never used by this program. Servers share the directory until unlock is called; what only one of them may have locks itself.
func Open(dir string) (unlock func() error, err error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	unlock, err = filelock.Lock(filepath.Join(dir, lockFile), filelock.Shared)
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("data directory %s is being removed, moved or checked: 'kanzen reset', 'kanzen migrate' or 'kanzen check' runs", dir)
	}
	if err != nil {
		return nil, hint(dir, err)
	}
	if err := writeMark(dir); err != nil {
		return nil, errors.Join(err, unlock())
	}
	return unlock, nil
}

// Claim opens a directory as Open does, for one who puts a database into it: servers are kept off until release is called. Unless the database is
// kept, release removes what Claim has made.
func Claim(dir string) (release func(keep bool) error, err error) {
	_, statErr := os.Stat(dir)
	isNew := errors.Is(statErr, fs.ErrNotExist)
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	unlock, err := Exclusive(dir)
	if err != nil {
		return nil, err
	}
	before, err := readMark(dir)
	if err == nil {
		err = writeMark(dir)
	}
	release = func(keep bool) (err error) {
		if !keep && before == nil {
			err = removeIfThere(filepath.Join(dir, markFile))
		}
		if !keep && isNew {
			err = errors.Join(err, removeIfThere(filepath.Join(dir, lockFile)), os.Remove(dir))
		}
		return errors.Join(err, unlock())
	}
	if err != nil {
		return nil, errors.Join(err, release(false))
	}
	return release, nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func makeDir(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if info, statErr := os.Stat(dir); statErr == nil && !info.IsDir() {
		return fmt.Errorf("data directory %s is a file; name a directory with --data-dir", dir)
	}
	if err != nil {
		return hint(dir, err)
	}
	return nil
}

// hint says what to do about the usual errors.
func hint(dir string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("data directory %s cannot be written (%w); name another with --data-dir", dir, cause(err))
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("data directory %s: the disk is full; free space, or name another directory with --data-dir", dir)
	}
	return fmt.Errorf("data directory %s: %w; name another with --data-dir", dir, err)
}

func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// readMark returns nil if the directory has no mark.
func readMark(dir string) (*mark, error) {
	path := filepath.Join(dir, markFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, hint(dir, err)
	}
	m := &mark{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%s is no mark of kanzen's (%w); name another directory with --data-dir", path, err)
	}
	return m, nil
}

func writeMark(dir string) error {
	old, err := readMark(dir)
	if err != nil {
		return err
	}
	now := mark{version.Kanzen, version.Kubernetes}
	switch {
	case old != nil && newer(old.Kubernetes, now.Kubernetes):
		return fmt.Errorf("data directory %s was last used by kanzen %s, which serves Kubernetes %s; this is kanzen %s for Kubernetes %s: use that version or a newer one, or name another directory with --data-dir",
			dir, old.Kanzen, old.Kubernetes, now.Kanzen, now.Kubernetes)
	case old != nil && *old == now:
		return nil
	case old == nil && !madeByUs(dir):
		if is, err := empty(dir); err != nil || !is {
			return err // it may have data of others, and is not to be removed one day
		}
	}
	b, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, markFile), append(b, '\n'), 0o600); err != nil {
		return hint(dir, err)
	}
	return nil
}

// newer reports whether a has a newer minor version than b.
func newer(a, b string) bool {
	va, err := utilversion.ParseGeneric(a)
	if err != nil {
		return false
	}
	vb := utilversion.MustParseGeneric(b)
	return va.Major() > vb.Major() || va.Major() == vb.Major() && va.Minor() > vb.Minor()
}

// expected are the names that a directory without a mark may have: what was restored into it or brought along, and what a new file
// system has.
var expected = []string{lockFile, markFile, "etcd", "pebble", "pki", "snapshots", "lost+found"}

// empty reports whether a directory has nothing but a lock. It is an error if it has files that cannot be a server's: data and keys
// beside them would be removed, changed or published together with them one day.
func empty(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, hint(dir, err)
	}
	for _, e := range entries {
		if !slices.Contains(expected, e.Name()) {
			return false, fmt.Errorf("data directory %s is not empty and not one of kanzen's: it has %s; name a new or an empty one with --data-dir", dir, e.Name())
		}
	}
	return len(entries) == 0 || len(entries) == 1 && entries[0].Name() == lockFile, nil
}
