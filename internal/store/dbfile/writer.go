package dbfile

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"
)

// A transaction of bbolt is in memory until it is committed.
const (
	maxTxnChanges = 10_000
	maxTxnBytes   = 32 << 20
)

// Writer writes a new file of etcd's database. In its bucket "key" is every change by its revision: 8 bytes of the revision, '_', 8 bytes that
// tell the changes of one revision apart, and 't' if the key was deleted.
type Writer struct {
	path           string
	file           *bolt.DB
	tx             *bolt.Tx
	keys           *bolt.Bucket
	changes, bytes int // of tx
}

// Create makes a file with the buckets that etcd expects.
func Create(path string) (*Writer, error) {
	file, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return nil, err
	}
	w := &Writer{path: path, file: file}
	err = w.update(func() error {
		for _, b := range schema.AllBuckets {
			if _, err := w.tx.CreateBucketIfNotExists(b.Name()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return w, nil
}

// Change is a change of a key.
type Change struct {
	Rev, Sub   int64 // Sub tells the changes of a revision apart, from 0 on
	Key, Value []byte
	// Created is the revision of the key's creation, Version counts its changes since then, and Lease is the ID of its lease (0: none). They
	// are 0 if the key was deleted.
	Created, Version, Lease int64
	Deleted                 bool
}

// Put writes a change.
func (w *Writer) Put(c Change) error {
	at, kv := revision(c.Rev, c.Sub), &mvccpb.KeyValue{Key: c.Key}
	if c.Deleted {
		at = append(at, 't')
	} else {
		kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease = c.Value, c.Created, c.Rev, c.Version, c.Lease
	}
	value, err := proto.Marshal(kv)
	if err != nil {
		return err
	}
	return w.update(func() error {
		w.bytes += len(value)
		return w.keys.Put(at, value)
	})
}

// Drop removes a change that was no deletion.
func (w *Writer) Drop(rev, sub int64) error {
	return w.update(func() error { return w.keys.Delete(revision(rev, sub)) })
}

// Compacted says from which revision on the history is complete; 0: from the beginning.
func (w *Writer) Compacted(rev int64) error {
	if rev == 0 {
		return nil
	}
	return w.update(func() error {
		meta := w.tx.Bucket(schema.Meta.Name())
		return errors.Join(meta.Put(schema.ScheduledCompactKeyName, revision(rev, 0)), meta.Put(schema.FinishedCompactKeyName, revision(rev, 0)))
	})
}

// Lease writes a lease. Keys end with their leases.
func (w *Writer) Lease(id, seconds int64) error {
	value, err := proto.Marshal(&leasepb.Lease{ID: id, TTL: seconds})
	if err != nil {
		return err
	}
	return w.update(func() error {
		return w.tx.Bucket(schema.Lease.Name()).Put(binary.BigEndian.AppendUint64(nil, uint64(id)), value)
	})
}

// Close completes the file, and brings it to disk.
func (w *Writer) Close() error {
	err := w.commit()
	if err == nil {
		err = w.file.Sync()
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.file.Close()
}

// Abort removes the file.
func (w *Writer) Abort() (err error) {
	if w.tx != nil {
		err = w.tx.Rollback()
	}
	return errors.Join(err, w.file.Close(), os.Remove(w.path))
}

// update makes a change in the transaction that is open.
func (w *Writer) update(change func() error) (err error) {
	if w.tx == nil {
		if w.tx, err = w.file.Begin(true); err != nil {
			return err
		}
		if w.keys = w.tx.Bucket(schema.Key.Name()); w.keys != nil {
			w.keys.FillPercent = 1 // revisions only grow
		}
		w.changes, w.bytes = 0, 0
	}
	if err := change(); err != nil {
		return err
	}
	if w.changes++; w.changes >= maxTxnChanges || w.bytes >= maxTxnBytes || w.keys == nil {
		return w.commit()
	}
	return nil
}

func (w *Writer) commit() error {
	if w.tx == nil {
		return nil
	}
	tx := w.tx
	w.tx = nil
	return tx.Commit()
}

func revision(rev, sub int64) []byte {
	b := slices.Grow([]byte(nil), 18)
	return binary.BigEndian.AppendUint64(append(binary.BigEndian.AppendUint64(b, uint64(rev)), '_'), uint64(sub))
}
