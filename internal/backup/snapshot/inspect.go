package snapshot

import (
	"context"
	"errors"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/kanzen-io/kanzen/internal/store/etcdfile"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Inspection is what a snapshot has.
type Inspection struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	*Space
}

// Inspect says what a snapshot file has.
func (k *Kinds) Inspect(ctx context.Context, path string) (_ *Inspection, err error) {
	f, err := open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := &Inspection{Path: f.Path, Bytes: f.Bytes, SHA256: f.SHA256}
	if out.Space, err = k.Space(ctx, f); err != nil {
		return nil, err
	}
	out.Disk = &Disk{Bytes: f.Bytes}
	return out, f.db.View(func(tx *bolt.Tx) error { // the file may be longer than its pages
		out.Disk.Free = f.Bytes - tx.Size() + int64(f.db.Stats().FreePageN)*int64(f.db.Info().PageSize)
		return nil
	})
}

// Records is part of kv.Recorded.
func (f *File) Records(ctx context.Context, how kv.Reading, each func(*kv.Record) error) error {
	return f.db.View(func(tx *bolt.Tx) error { return etcdfile.Records(ctx, etcdfile.Of(tx), time.Now(), how, each) })
}
