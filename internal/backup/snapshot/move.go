package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/datadir"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/pebble"
)

// Moved is what Move has done.
type Moved struct {
	From, To       string // engines
	Revision, Keys int64  // of the database, the same before and after
	Compacted      int64  // the revision from which there is history
	Kept           string // where the old database is now
}

// moving is a database that can be moved.
type moving interface {
	store.DB
	kv.Recorded
	Snapshot(ctx context.Context) (io.ReadCloser, error)
	Close() error
}

// Move makes a database of another engine of the one in a data directory, with all its revisions, so that clients go on where they were. No server
// must run on it. The old database stays beside it, under another name, until somebody removes it. If anything fails, the directory is as it was.
func Move(ctx context.Context, dataDir, to string, progress func(bytes int64)) (_ *Moved, err error) {
	m := &Moved{From: config.EngineEtcd, To: to}
	if to == config.EngineEtcd {
		m.From = config.EnginePebble
	}
	from := filepath.Join(dataDir, m.From)
	m.Kept = from + ".before-migration"
	if files, err := os.ReadDir(from); err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s has no database of %s", dataDir, m.From)
	}
	if err := absent(filepath.Join(dataDir, to), m.Kept); err != nil {
		return nil, err
	}
	unlock, err := datadir.Exclusive(dataDir) // a server that began now would write to the old one
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	save := func(ctx context.Context, file string, progress func(int64)) error {
		return saveEngine(ctx, m.From, from, file, progress)
	}
	return m, m.make(ctx, dataDir, save, progress, func(made string) error {
		if err := os.Rename(from, m.Kept); err != nil {
			return err
		}
		if err := os.Rename(made, filepath.Join(dataDir, to)); err != nil {
			return errors.Join(err, os.Rename(m.Kept, from))
		}
		return nil
	})
}

// absent returns an error if one of the paths exists.
func absent(paths ...string) error {
	for _, path := range paths {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is there already; move it away first", path)
		}
	}
	return nil
}

// make makes a database of the snapshot that save writes, compares the two, and has place put the database where it belongs.
func (m *Moved) make(ctx context.Context, dataDir string, save Saver, progress func(bytes int64), place func(made string) error) (err error) {
	tmp, err := os.MkdirTemp(dataDir, "migrate-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	file, made := filepath.Join(tmp, "saved"), filepath.Join(tmp, m.To)
	if err := save(ctx, file, progress); err != nil {
		return err
	}
	f, err := Open(ctx, file)
	if err != nil {
		return err
	}
	// An empty database is at revision 1.
	m.Compacted = f.Compacted
	m.Revision, m.Keys = max(1, f.Revision, f.Compacted), int64(len(f.Entries))
	if err := f.Close(); err != nil {
		return err
	}
	if m.To == config.EngineEtcd {
		err = RestoreData(ctx, file, made, SoleMember(), 0)
	} else {
		_, err = pebble.Import(ctx, file, pebble.Config{Dir: made, KeepEnded: true})
	}
	if err != nil {
		return err
	}
	if err := m.verify(ctx, made); err != nil {
		return err
	}
	if err := place(made); err != nil {
		return err
	}
	return syncDir(dataDir)
}

// openEngine opens a database of an engine. Keys that have ended are left to the server.
func openEngine(ctx context.Context, engine, dir string) (moving, error) {
	if engine == config.EnginePebble {
		return pebble.Open(pebble.Config{Dir: dir, KeepEnded: true})
	}
	return etcd.OpenEmbedded(ctx, etcd.Embedded{Dir: dir, QuotaBytes: 8 << 30})
}

// saveEngine writes a snapshot of a database to a file.
func saveEngine(ctx context.Context, engine, dir, file string, progress func(bytes int64)) (err error) {
	db, err := openEngine(ctx, engine, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return save(ctx, db, file, progress)
}

// save writes a snapshot of an open database to a file.
func save(ctx context.Context, db moving, file string, progress func(bytes int64)) (err error) {
	stream, err := db.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	return Save(ctx, stream, file, progress)
}

func extent(ctx context.Context, db store.DB) (rev, keys int64, err error) {
	answer, err := db.Range(ctx, kv.Range{Key: "\x00", End: kv.NoEnd, CountOnly: true}, nil)
	return answer.Rev, answer.Count, err
}

// verify opens the database that was made, and compares what can be compared at once.
func (m *Moved) verify(ctx context.Context, dir string) (err error) {
	db, err := openEngine(ctx, m.To, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rev, keys, err := extent(ctx, db)
	if err == nil && (rev != m.Revision || keys != m.Keys) {
		err = fmt.Errorf("the new database has %d keys at revision %d, the old one %d at %d", keys, rev, m.Keys, m.Revision)
	}
	return err
}
