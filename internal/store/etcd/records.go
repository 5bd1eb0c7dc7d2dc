package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"github.com/kanzen-io/kanzen/internal/store/etcdfile"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// errElsewhere says that the records are in another process.
var errElsewhere = errors.New("the database is not in this process: save a snapshot of it")

// Records passes on all records of the embedded etcd, in the order of revisions. It implements kv.Recorded.
func (d *DB) Records(ctx context.Context, how kv.Reading, each func(*kv.Record) error) error {
	if err := d.broken.err(); err != nil {
		return err
	}
	if d.backend == nil {
		return errElsewhere
	}
	tx := d.backend.ConcurrentReadTx()
	tx.RLock()
	defer tx.RUnlock()
	return etcdfile.Records(ctx, paged(tx), time.Now(), how, each)
}

// page is about how many records are read at a time: to read all at once would hold a lock that all reads of etcd take.
const page = 10_000

// paged reads the buckets of etcd while it serves.
func paged(tx backend.ReadTx) etcdfile.Reader {
	return func(bucket string, f func(key, value []byte) error) error {
		for _, b := range []backend.Bucket{schema.Meta, schema.Lease} {
			if b.String() == bucket {
				return tx.UnsafeForEach(b, f)
			}
		}
		// What was written last comes from a buffer, and only a range of which all was returned is known to be in order. So a page is a span
		// of revisions, which is made smaller until a page has less than it may.
		limit := int64(page)
		for from, span := int64(0), int64(page/4); from < maxRevision; {
			keys, values := tx.UnsafeRange(schema.Key, etcdfile.Revision(from), etcdfile.Revision(from+span), limit)
			if int64(len(keys)) == limit {
				if span /= 2; span == 0 { // a large transaction of another etcd
					span, limit = 1, 2*limit
				}
				continue
			}
			for n := range keys {
				if err := f(keys[n], values[n]); err != nil {
					return err
				}
			}
			if from += span; len(keys) < page/4 {
				span *= 2 // there may be gaps, as after the restore of a snapshot
			}
		}
		return nil
	}
}

// maxRevision is beyond all revisions.
const maxRevision = 1 << 61
