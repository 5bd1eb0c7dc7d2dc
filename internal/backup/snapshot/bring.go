package snapshot

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/datadir"
	"github.com/kanzen-io/kanzen/internal/store/etcd"
)

// Saver writes a snapshot to a new file. progress is called with the number of bytes so far; nil: it is not.
type Saver func(ctx context.Context, file string, progress func(bytes int64)) error

// Bring makes a database in a data directory of a snapshot of another one, with its revisions and its history, so that clients go on where they
// were. The directory is made if needed, and must not have a database; keys in it stay. If anything fails, the directory is as it was.
func Bring(ctx context.Context, from Saver, dataDir, to string, progress func(bytes int64)) (_ *Moved, err error) {
	m := &Moved{To: to}
	if err := absent(filepath.Join(dataDir, config.EngineEtcd), filepath.Join(dataDir, config.EnginePebble)); err != nil {
		return nil, err
	}
	release, err := datadir.Claim(dataDir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release(err == nil)) }()
	return m, m.make(ctx, dataDir, from, progress, func(made string) error { return os.Rename(made, filepath.Join(dataDir, to)) })
}

// FromEtcd saves an etcd cluster.
func FromEtcd(db *etcd.DB) Saver {
	return func(ctx context.Context, file string, progress func(bytes int64)) (err error) {
		return save(ctx, db, file, progress)
	}
}

// AddChecksum makes a snapshot of a file of etcd's database.
func AddChecksum(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if _, err := f.Write(h.Sum(nil)); err != nil {
		return err
	}
	return f.Sync()
}
