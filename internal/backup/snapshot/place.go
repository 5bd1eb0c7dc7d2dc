package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Place keeps scheduled snapshots.
type Place interface {
	// Put stores the file at path under a name.
	Put(ctx context.Context, name, path string) error
	// List returns the names of what is kept.
	List(ctx context.Context) ([]string, error)
	Delete(ctx context.Context, name string) error
	// String names the place in logs, without credentials.
	String() string
}

// The names of scheduled snapshots tell when they were made. What is named otherwise is left alone.
const (
	namePrefix = "kanzen-"
	nameTime   = "20060102T150405Z"
	nameSuffix = ".db"
)

// KeysSuffix is what the file of a snapshot's keys has after the name of the snapshot.
const KeysSuffix = ".keys"

// nameAt is the name of a snapshot that is made at a time.
func nameAt(t time.Time) string { return namePrefix + t.UTC().Format(nameTime) + nameSuffix }

// madeAt is the time in a name.
func madeAt(name string) (time.Time, bool) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return time.Time{}, false
	}
	if rest, ok = strings.CutSuffix(rest, nameSuffix); !ok {
		return time.Time{}, false
	}
	t, err := time.Parse(nameTime, rest)
	return t, err == nil
}

// Keep says which snapshots are kept: those younger than Age, and the newest Number. Zero sets no bound; if both are set,
// a snapshot goes when it is beyond either. The newest always stays.
type Keep struct {
	Number int
	Age    time.Duration
}

// prune deletes what is not to be kept.
func (k Keep) prune(ctx context.Context, p Place, now time.Time) error {
	names, err := p.List(ctx)
	if err != nil {
		return fmt.Errorf("list %s: %w", p, err)
	}
	type made struct {
		name string
		at   time.Time
	}
	var all []made
	for _, name := range names {
		if at, ok := madeAt(name); ok {
			all = append(all, made{name, at})
		}
	}
	slices.SortFunc(all, func(a, b made) int { return cmp.Or(b.at.Compare(a.at), strings.Compare(a.name, b.name)) })
	var errs []error
	for n, m := range all {
		if n > 0 && (k.Number > 0 && n >= k.Number || k.Age > 0 && now.Sub(m.at) > k.Age) {
			errs = append(errs, remove(ctx, p, m.name, slices.Contains(names, m.name+KeysSuffix)))
		}
	}
	return errors.Join(errs...)
}

// remove deletes a snapshot from a place, after its keys: those of a snapshot that is gone would stay for ever.
func remove(ctx context.Context, p Place, name string, withKeys bool) error {
	files := []string{name}
	if withKeys {
		files = []string{name + KeysSuffix, name}
	}
	for _, file := range files {
		if err := p.Delete(ctx, file); err != nil {
			return fmt.Errorf("delete %s from %s: %w", file, p, err)
		}
	}
	return nil
}

// Dir is a Place: a directory.
type Dir string

// String is part of Place.
func (d Dir) String() string { return string(d) }

// Put is part of Place. The file appears under its name when it is complete.
func (d Dir) Put(ctx context.Context, name, path string) (err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	to := filepath.Join(string(d), name)
	if os.Rename(path, to) == nil { // the same file system
		return syncDir(string(d))
	}
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if _, ok := madeAt(name); ok {
		return Save(ctx, from, to, nil)
	}
	return Create(to, func(f *os.File) error {
		_, err := io.Copy(f, from)
		return err
	})
}

// List is part of Place.
func (d Dir) List(context.Context) ([]string, error) {
	entries, err := os.ReadDir(string(d))
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Delete is part of Place.
func (d Dir) Delete(_ context.Context, name string) error {
	return os.Remove(filepath.Join(string(d), name))
}
