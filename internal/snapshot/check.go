package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/datadir"
	"github.com/kanzen-io/kanzen/internal/store/pebble"
)

// Checked is what Check has found in order.
type Checked struct {
	Engine         string
	Revision, Keys int64
}

// Check reads the whole database in a data directory, on which no server must run: pages or blocks with their checksums, every key and revision, and
// what refers to them. It returns an error if it is damaged.
func Check(ctx context.Context, dataDir string) (_ *Checked, err error) {
	found := config.EnginesIn(dataDir)
	if len(found) != 1 {
		return nil, fmt.Errorf("%s has %d databases; one is needed", dataDir, len(found))
	}
	unlock, err := datadir.Exclusive(dataDir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	c := &Checked{Engine: found[0]}
	db, err := openEngine(ctx, c.Engine, filepath.Join(dataDir, c.Engine))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if c.Revision, c.Keys, err = extent(ctx, db); err != nil {
		return nil, err
	}
	if p, ok := db.(*pebble.DB); ok {
		_, err = p.Check(ctx)
		return c, err
	}
	return c, checkSaved(ctx, db, dataDir)
}

// checkSaved checks a snapshot of a database, which has all its pages. It is made in a directory for the time being.
func checkSaved(ctx context.Context, db moving, dir string) (err error) {
	tmp, err := os.MkdirTemp(dir, "check-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	path := filepath.Join(tmp, "db")
	if err := save(ctx, db, path, nil); err != nil {
		return err
	}
	f, err := Open(ctx, path)
	if err != nil {
		return err
	}
	return f.Close()
}
