package etcdfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// A transaction of bbolt is in memory until it is committed.
const (
	maxTxn      = 10_000
	maxTxnBytes = 32 << 20
)

// Writer writes a new file.
type Writer struct {
	file *bolt.DB
	tx   *bolt.Tx
	n    int // changes in the transaction
	size int // bytes of these
	last int64
	sub  int64 // tells the changes of the last revision apart
	ends map[int64]bool
}

// Create begins a file. Its maker calls Close, and before that Finish, unless the file is not to be used.
func Create(path string) (*Writer, error) {
	file, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return nil, err
	}
	w := &Writer{file: file, ends: map[int64]bool{}}
	err = file.Update(func(tx *bolt.Tx) error {
		for _, b := range schema.AllBuckets {
			if _, err := tx.CreateBucketIfNotExists(b.Name()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return w, nil
}

// Put adds a record. Records in the order of revisions make the smallest file, but they may come in any order.
func (w *Writer) Put(r *kv.Record) error {
	b, err := w.keys()
	if err != nil {
		return err
	}
	at := place(r.ModRevision, w.next(b, r.ModRevision))
	out := &mvccpb.KeyValue{Key: r.Key}
	if r.Deleted {
		at = append(at, 't')
	} else {
		out.Value, out.CreateRevision, out.ModRevision, out.Version, out.Lease = r.Value, r.CreateRevision, r.ModRevision, r.Version, r.Ends
	}
	if r.Ends != 0 {
		w.ends[r.Ends] = true
	}
	value, err := proto.Marshal(out)
	if err != nil {
		return err
	}
	if err := b.Put(at, value); err != nil {
		return err
	}
	return w.changed(len(value))
}

// Drop removes the record of a revision, which has one and is no deletion.
func (w *Writer) Drop(rev int64) error {
	b, err := w.keys()
	if err != nil {
		return err
	}
	if err := b.Delete(Revision(rev)); err != nil {
		return err
	}
	return w.changed(0)
}

// keys is the bucket of records in the transaction, which it begins if need be.
func (w *Writer) keys() (_ *bolt.Bucket, err error) {
	if w.tx == nil {
		if w.tx, err = w.file.Begin(true); err != nil {
			return nil, err
		}
	}
	b := w.tx.Bucket(schema.Key.Name())
	b.FillPercent = 1 // revisions only grow
	return b, nil
}

// changed counts a change of the transaction.
func (w *Writer) changed(bytes int) error {
	w.n, w.size = w.n+1, w.size+bytes
	if w.n < maxTxn && w.size < maxTxnBytes {
		return nil
	}
	return w.commit()
}

// Has says whether there is a record of a key at a revision, which exists.
func (w *Writer) Has(rev int64, key []byte) (bool, error) {
	tx := w.tx
	if tx == nil {
		var err error
		if tx, err = w.file.Begin(false); err != nil {
			return false, err
		}
		defer func() { _ = tx.Rollback() }() // of what only reads
	}
	c := tx.Bucket(schema.Key.Name()).Cursor()
	for at, value := c.Seek(Revision(rev)); at != nil && int64(binary.BigEndian.Uint64(at)) == rev; at, value = c.Next() {
		var r kv.Record
		if err := decode(&r, at, value, nil); err != nil {
			return false, err
		}
		if !r.Deleted && bytes.Equal(r.Key, key) {
			return true, nil
		}
	}
	return false, nil
}

// next returns what tells a further change of a revision apart from those that are there.
func (w *Writer) next(b *bolt.Bucket, rev int64) int64 {
	if rev >= w.last {
		if w.sub++; rev > w.last {
			w.last, w.sub = rev, 0
		}
		return w.sub
	}
	c := b.Cursor()
	at, _ := c.Seek(Revision(rev + 1)) // there is a later revision
	if at == nil {
		return 0
	}
	if at, _ = c.Prev(); len(at) < revisionBytes || int64(binary.BigEndian.Uint64(at)) != rev {
		return 0
	}
	return int64(binary.BigEndian.Uint64(at[9:])) + 1
}

func (w *Writer) commit() error {
	if w.tx == nil {
		return nil
	}
	err := w.tx.Commit()
	w.tx, w.n, w.size = nil, 0, 0
	return err
}

// Finish completes the file. compacted is the revision before which history is missing; 0: none is.
func (w *Writer) Finish(compacted int64, now time.Time) error {
	if err := w.commit(); err != nil {
		return err
	}
	err := w.file.Update(func(tx *bolt.Tx) error {
		if err := w.writeLeases(tx, now); err != nil || compacted == 0 {
			return err
		}
		meta := tx.Bucket(schema.Meta.Name())
		at := Revision(compacted)
		return errors.Join(meta.Put(schema.ScheduledCompactKeyName, at), meta.Put(schema.FinishedCompactKeyName, at))
	})
	if err != nil {
		return err
	}
	return w.file.Sync()
}

// Close closes the file.
func (w *Writer) Close() error {
	var err error
	if w.tx != nil {
		err = w.tx.Rollback()
	}
	return errors.Join(err, w.file.Close())
}

// writeLeases writes a lease for each time at which keys end; its ID is that time.
func (w *Writer) writeLeases(tx *bolt.Tx, now time.Time) error {
	b := tx.Bucket(schema.Lease.Name())
	for _, at := range slices.Sorted(maps.Keys(w.ends)) {
		l := &leasepb.Lease{ID: at, TTL: max(1, int64(time.Unix(0, at).Sub(now)/time.Second))}
		value, err := proto.Marshal(l)
		if err != nil {
			return err
		}
		if err := b.Put(binary.BigEndian.AppendUint64(nil, uint64(at)), value); err != nil {
			return err
		}
	}
	return nil
}

// Revision is the first place in the bucket "key" of changes at a revision.
func Revision(rev int64) []byte { return place(rev, 0) }

func place(rev, sub int64) []byte {
	return binary.BigEndian.AppendUint64(append(binary.BigEndian.AppendUint64(nil, uint64(rev)), '_'), uint64(sub))
}
