package store

import (
	"context"
	"time"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// DB is the log that a Store follows and writes to: etcd (package etcd), or one
// in memory (package memory). It is used by many goroutines at a time. Its
// methods end when their context does. A method that gives an error other than
// those named may have done what was asked, or not.
type DB interface {
	// Head returns a revision that is at least as new as every write
	// acknowledged before the call.
	Head(ctx context.Context) (int64, error)
	// Range reads keys and hands them to yield (nil for a count) one by one.
	// kv.ErrCompacted, kv.ErrFuture.
	Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error)
	// Commit carries a transaction out. kv.ErrNoLease, kv.ErrTooLarge.
	Commit(ctx context.Context, t kv.Txn) (kv.Committed, error)
	// Watch hands the events of keys to deliver, one batch after the other,
	// until w.Until was reached (nil), deliver gives an error (which is
	// returned), ctx ends or the watch breaks off. kv.ErrCompacted.
	Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error
	// Compact drops the history before rev. kv.ErrCompacted: that was done
	// before. kv.ErrFuture.
	Compact(ctx context.Context, rev int64) error
	// Grant makes a lease that ends after ttl, in whole seconds.
	Grant(ctx context.Context, ttl time.Duration) (kv.Lease, error)
	// Ping answers whether requests are taken.
	Ping(ctx context.Context) error
	// Size returns the bytes of the database.
	Size(ctx context.Context) (int64, error)
}

// read reads one key as of a revision (0: the newest); nil: it is not there.
func read(ctx context.Context, db DB, key string, rev int64) (found *kv.KeyValue, err error) {
	_, err = db.Range(ctx, kv.Range{Key: key, Rev: rev}, func(k kv.KeyValue) bool {
		found = &k
		return false
	})
	return found, err
}
