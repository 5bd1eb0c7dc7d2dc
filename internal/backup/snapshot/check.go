package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/kanzen-io/kanzen/internal/store/pebble"
)

// Checked is what Check has found in order.
type Checked struct {
	Engine         string
	Revision, Keys int64
	// Objects is what the objects are; nil: they were not looked at.
	*Objects
}

// Check reads the whole database in a data directory, on which no server must run: pages or blocks with their checksums, every key and revision, and
// what refers to them. It returns an error if it is damaged. Of a sound one it then decodes the objects, as CheckObjects does; k nil: it does not.
func Check(ctx context.Context, dataDir string, k *Kinds, decrypts bool) (*Checked, error) {
	c := &Checked{}
	return c, stopped(ctx, dataDir, func(engine string, db moving) (err error) {
		c.Engine = engine
		if c.Revision, c.Keys, err = extent(ctx, db); err != nil {
			return err
		}
		if p, ok := db.(*pebble.DB); ok {
			_, err = p.Check(ctx)
		} else {
			err = checkSaved(ctx, db, dataDir)
		}
		if err == nil && k != nil {
			c.Objects, err = k.CheckObjects(ctx, db, decrypts)
		}
		return err
	})
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
