package pebble

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"

	"github.com/kanzen-io/kanzen/internal/store/etcdfile"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// This file moves a database to and from files of etcd's, which are what backups are.

// Snapshot streams the database, with the history that it has, as a file of etcd's with its SHA-256 at the end.
func (d *DB) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	done, err := d.use(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return etcdfile.Stream(d.dir, func(path string) error { return d.export(ctx, path) })
}

// place is where the tree has a change.
type place struct {
	rev    int64
	key    []byte
	newest bool
}

// export writes the database as of its newest revision to a new file of etcd's.
func (d *DB) export(ctx context.Context, path string) (err error) {
	file, err := etcdfile.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	compacted := int64(0)
	begin := func(e kv.Extent) error { compacted = e.Compacted; return nil }
	n := 0
	err = d.records(ctx, kv.Reading{Begin: begin, ByRevision: true}, func(r *kv.Record) error {
		if n++; n%1000 == 0 {
			if err := d.disk.Room(); err != nil {
				return err // the file must not take the room that writes need
			}
		}
		return file.Put(r)
	})
	if err != nil {
		return err
	}
	return file.Finish(compacted, d.clock.Now())
}

// Records passes on all records, of a key the newest first unless they are asked for by revision. It implements kv.Recorded.
func (d *DB) Records(ctx context.Context, how kv.Reading, f func(*kv.Record) error) (err error) {
	done, err := d.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	defer d.broken.RecoverFatal(&err)
	return d.records(ctx, how, f)
}

func (d *DB) records(ctx context.Context, how kv.Reading, f func(*kv.Record) error) (err error) {
	head := d.durable.head()     // all of which the tree has
	tree := d.tree.NewSnapshot() // no compaction takes anything from it
	defer func() { err = errors.Join(err, tree.Close()) }()
	if how.Begin != nil {
		if err := how.Begin(kv.Extent{Head: head, Compacted: d.compacted.Load()}); err != nil { // of the tree, or later
			return err
		}
	}
	var last []byte
	var places []place
	err = each(ctx, tree, recordSpace, func(at, value []byte) error {
		if err := errors.Join(ctx.Err(), how.Read()); err != nil {
			return err
		}
		key, rev := ofRecord(at)
		if rev > head { // it is not on disk yet
			return nil
		}
		newest := !bytes.Equal(key, last)
		if last = key; how.ByRevision {
			places = append(places, place{rev: rev, key: key, newest: newest})
			return nil
		}
		return passRecord(f, key, rev, newest, len(at), value)
	})
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.rev, b.rev) })
	for _, p := range places {
		if err != nil {
			break
		}
		at := recordKey(p.key, p.rev)
		value, done, failed := tree.Get(at)
		if failed != nil {
			return failed
		}
		err = errors.Join(ctx.Err(), how.Read(), passRecord(f, p.key, p.rev, p.newest, len(at), value), done.Close())
	}
	return err
}

// passRecord passes a record on. It shares its bytes.
func passRecord(f func(*kv.Record) error, key []byte, rev int64, newest bool, keyBytes int, value []byte) error {
	r, err := recordOf(rev, value)
	if err != nil {
		return fmt.Errorf("key %q at revision %d: %w", key, rev, err)
	}
	out := &kv.Record{KeyValue: kv.KeyValue{Key: key, ModRevision: rev}, Deleted: !r.exists(), Newest: newest, Ends: r.ends, Bytes: keyBytes + len(value)}
	if r.exists() {
		out.Value, out.CreateRevision, out.Version = r.value, r.created, r.version
	}
	return f(out)
}

// Import makes a database of a file of etcd's, with all its revisions. The directory must not have one.
func Import(ctx context.Context, path string, c Config) (head int64, err error) {
	file, err := bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	c.Dir = filepath.Clean(c.Dir)
	if _, err := os.Lstat(c.Dir); err == nil {
		return 0, fmt.Errorf("%s is there already", c.Dir)
	}
	d, err := Open(c)
	if err != nil {
		return 0, err
	}
	i := importing{d: d, tree: d.tree, b: d.tree.NewBatch(), ends: map[string]int64{}, leases: map[int64]int64{}}
	err = file.View(func(tx *bolt.Tx) error { return i.run(ctx, tx) })
	if err == nil {
		err = d.tree.Flush()
	}
	d.rev = max(d.rev, i.rev)
	if err := errors.Join(err, d.Close()); err != nil {
		return 0, errors.Join(err, os.RemoveAll(c.Dir))
	}
	return i.rev, nil
}

// importing reads a file of etcd's.
type importing struct {
	d       *DB
	tree    *pebble.DB
	b       *pebble.Batch
	rev     int64            // that is being read
	changes []byte           // of that revision
	from    int64            // the first revision whose changes are a part of the history
	leases  map[int64]int64  // when what is bound to a lease ends
	ends    map[string]int64 // of the newest records
}

func (i *importing) run(ctx context.Context, tx *bolt.Tx) error {
	keys, meta := tx.Bucket(schema.Key.Name()), tx.Bucket(schema.Meta.Name())
	if keys == nil || meta == nil {
		return errors.New("it is no database of etcd")
	}
	finished, scheduled := fileCompacted(meta.Get(schema.FinishedCompactKeyName)), fileCompacted(meta.Get(schema.ScheduledCompactKeyName))
	compacted := max(finished, scheduled)
	if finished == scheduled {
		i.from = compacted // what is older are keys that have not changed since; otherwise the next start finds there what to drop
	}
	if compacted > 0 {
		if err := i.b.Set(compactedKey, binary.BigEndian.AppendUint64(nil, uint64(compacted)), nil); err != nil {
			return err
		}
	}
	if err := i.readLeases(tx); err != nil {
		return err
	}
	err := keys.ForEach(func(at, value []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return i.change(at, value)
	})
	if err != nil {
		return err
	}
	if err := i.endRevision(); err != nil {
		return err
	}
	for key, at := range i.ends {
		if err := i.b.Set(endKey(at, key), nil, nil); err != nil {
			return err
		}
	}
	i.rev = max(i.rev, compacted)
	return i.tree.Apply(i.b, pebble.NoSync)
}

func fileCompacted(b []byte) int64 {
	if len(b) < 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (i *importing) readLeases(tx *bolt.Tx) error {
	b := tx.Bucket(schema.Lease.Name())
	if b == nil {
		return nil
	}
	now := i.d.clock.Now()
	return b.ForEach(func(_, value []byte) error {
		var l leasepb.Lease
		if err := proto.Unmarshal(value, &l); err != nil {
			return fmt.Errorf("a lease: %w", err)
		}
		i.leases[l.ID] = now.Add(time.Duration(max(1, cmp.Or(l.RemainingTTL, l.TTL))) * time.Second).UnixNano()
		return nil
	})
}

// importBytes is how much is put into the tree at a time.
const importBytes = 4 << 20

// change takes one change of the file.
func (i *importing) change(at, value []byte) error {
	if len(at) < 17 {
		return fmt.Errorf("a revision has %d bytes", len(at))
	}
	var k mvccpb.KeyValue
	if err := proto.Unmarshal(value, &k); err != nil {
		return fmt.Errorf("revision %d: %w", int64(binary.BigEndian.Uint64(at)), err)
	}
	if rev := int64(binary.BigEndian.Uint64(at)); rev != i.rev {
		if err := i.endRevision(); err != nil {
			return err
		}
		i.rev = rev
	}
	r := record{rev: i.rev}
	if len(at) == 17 {
		r.created, r.version, r.value, r.ends = k.CreateRevision, k.Version, k.Value, i.leases[k.Lease]
	}
	if delete(i.ends, string(k.Key)); r.ends != 0 {
		i.ends[string(k.Key)] = r.ends
	}
	i.changes = appendChange(i.changes, k.Key, !r.exists())
	return i.b.Set(recordKey(k.Key, i.rev), append(r.head(nil), r.value...), nil)
}

// endRevision writes what changed at the revision that was read.
func (i *importing) endRevision() error {
	if len(i.changes) > 0 && i.rev >= i.from {
		if err := i.b.Set(revisionKey(i.rev), i.changes, nil); err != nil {
			return err
		}
	}
	i.changes = i.changes[:0]
	if i.b.Len() < importBytes {
		return nil
	}
	if err := i.tree.Apply(i.b, pebble.NoSync); err != nil {
		return err
	}
	i.b.Reset()
	return nil
}
