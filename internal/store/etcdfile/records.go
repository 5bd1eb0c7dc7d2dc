package etcdfile

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Reader passes the entries of a bucket to f, in the order of their keys. They are valid during the call. All calls of a Reader see the same
// moment of the database.
type Reader func(bucket string, f func(key, value []byte) error) error

// Of is the Reader of a transaction of bbolt.
func Of(tx *bolt.Tx) Reader {
	return func(bucket string, f func(key, value []byte) error) error {
		b := tx.Bucket([]byte(bucket))
		if b == nil {
			return fmt.Errorf("it is no database of etcd: it has no bucket %q", bucket)
		}
		return b.ForEach(f)
	}
}

// revisionBytes is the length of a revision in bucket "key"; that of a deletion has one byte more.
const revisionBytes = 17

// overhead is what bbolt keeps of an entry beside its key and value.
const overhead = 16

// Records passes on every record, in the order of revisions, as kv.Recorded does. It reads the keys twice, the first time to learn which record
// of a key is its newest, and holds some 20 bytes for each key.
func Records(ctx context.Context, read Reader, now time.Time, how kv.Reading, each func(*kv.Record) error) error {
	extent, err := extentOf(read)
	if err != nil {
		return err
	}
	leases, err := leasesOf(read, now)
	if err != nil {
		return err
	}
	seed, newest := maphash.MakeSeed(), map[uint64]int64{}
	records := func(f func(r *kv.Record, hash uint64) error) error {
		return read(schema.Key.String(), func(at, value []byte) error {
			var r kv.Record
			if err := errors.Join(ctx.Err(), how.Read(), decode(&r, at, value, leases)); err != nil {
				return err
			}
			return f(&r, maphash.Bytes(seed, r.Key))
		})
	}
	err = records(func(r *kv.Record, hash uint64) error {
		newest[hash], extent.Head = r.ModRevision, max(extent.Head, r.ModRevision)
		return nil
	})
	if err == nil && how.Begin != nil {
		err = how.Begin(extent)
	}
	if err != nil {
		return err
	}
	return records(func(r *kv.Record, hash uint64) error {
		r.Newest = newest[hash] == r.ModRevision
		return each(r)
	})
}

// extentOf reads how far the history is compacted. What a compaction is about to drop is not complete any more.
func extentOf(read Reader) (e kv.Extent, err error) {
	err = read(schema.Meta.String(), func(key, value []byte) error {
		switch string(key) {
		case string(schema.FinishedCompactKeyName), string(schema.ScheduledCompactKeyName):
			if len(value) >= 8 {
				e.Compacted = max(e.Compacted, int64(binary.BigEndian.Uint64(value)))
			}
		}
		return nil
	})
	e.Head = max(1, e.Compacted) // the revision of an empty database is 1
	return e, err
}

// leasesOf reads when leases end. Of one that runs only its whole time is known, so what is bound to it ends later rather than earlier.
func leasesOf(read Reader, now time.Time) (map[int64]time.Time, error) {
	ends := map[int64]time.Time{}
	err := read(schema.Lease.String(), func(_, value []byte) error {
		var l leasepb.Lease
		if err := proto.Unmarshal(value, &l); err != nil {
			return fmt.Errorf("a lease: %w", err)
		}
		ends[l.ID] = now.Add(time.Duration(max(1, cmp.Or(l.RemainingTTL, l.TTL))) * time.Second)
		return nil
	})
	return ends, err
}

// decode reads a record. It shares the bytes of the database. The value, which may be on pages of its own, is not looked at.
func decode(r *kv.Record, at, value []byte, leases map[int64]time.Time) error {
	if len(at) < revisionBytes {
		return fmt.Errorf("a revision has %d bytes", len(at))
	}
	rev := int64(binary.BigEndian.Uint64(at))
	r.Deleted, r.Bytes = len(at) > revisionBytes, len(at)+len(value)+overhead
	for rest := value; len(rest) > 0; {
		field, is, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return fmt.Errorf("revision %d: %w", rev, protowire.ParseError(n))
		}
		rest = rest[n:]
		var b []byte
		var number uint64
		switch is {
		case protowire.BytesType:
			b, n = protowire.ConsumeBytes(rest)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(rest)
		default:
			n = protowire.ConsumeFieldValue(field, is, rest)
		}
		if n < 0 {
			return fmt.Errorf("revision %d: %w", rev, protowire.ParseError(n))
		}
		rest = rest[n:]
		switch field {
		case 1:
			r.Key = b
		case 2:
			r.CreateRevision = int64(number)
		case 4:
			r.Version = int64(number)
		case 5:
			r.Value = b
		case 6:
			if ends, ok := leases[int64(number)]; ok {
				r.Ends = ends.UnixNano()
			}
		}
	}
	r.ModRevision = rev
	return nil
}
