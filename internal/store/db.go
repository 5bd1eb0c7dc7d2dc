package store

import (
	"context"
	"time"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// DB is the log that a Store follows and writes to: etcd (package etcd), or one
// in memory (package memory). It is safe for concurrent use. Its methods return
// when their context ends. After an error other than those named here, the
// outcome is unknown: the operation may have been carried out or not.
type DB interface {
	// Head returns a revision that is at least as new as every write
	// acknowledged before the call.
	Head(ctx context.Context) (int64, error)
	// Range reads keys and passes them to yield (nil for a count) one by one.
	// Errors: kv.ErrCompacted, kv.ErrFuture.
	Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error)
	// Commit carries out a transaction. Errors: kv.ErrNoLease, kv.ErrTooLarge.
	Commit(ctx context.Context, t kv.Txn) (kv.Committed, error)
	// Watch passes the events of keys to deliver, batch by batch, until w.Until
	// is reached (it returns nil), deliver returns an error (it returns that),
	// ctx ends or the watch breaks off. Errors: kv.ErrCompacted.
	Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error
	// Compact drops the history before rev. Errors: kv.ErrCompacted (it was
	// compacted before), kv.ErrFuture.
	Compact(ctx context.Context, rev int64) error
	// Grant makes a lease that ends after ttl, in whole seconds.
	Grant(ctx context.Context, ttl time.Duration) (kv.Lease, error)
	// Ping returns an error if the database does not accept requests.
	Ping(ctx context.Context) error
	// Writable returns an error if the database accepts reads but no writes:
	// its disk or its quota is full.
	Writable(ctx context.Context) error
	// Size returns the size of the database.
	Size(ctx context.Context) (kv.Size, error)
}

// read reads one key as of a revision (0: the newest). It returns nil if the
// key does not exist.
func read(ctx context.Context, db DB, key string, rev int64) (found *kv.KeyValue, err error) {
	_, err = db.Range(ctx, kv.Range{Key: key, Rev: rev}, func(k kv.KeyValue) bool {
		found = &k
		return false
	})
	return found, err
}
