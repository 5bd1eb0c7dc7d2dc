package store

import (
	"context"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// DB is the log that a Store follows and writes to. Package kv says what it is
// made of; a database is one if package storetest finds no fault in it.
//
// What a store relies on, of any database:
//   - Order. Revisions only grow, also from one process to the next, and two
//     transactions never have the same. A read at a revision, whenever it is done,
//     finds all changes up to it and none after.
//   - Strictness. Once a transaction is acknowledged, every later read of the
//     newest state, by any process, and every later Head, has it. Transactions
//     happen one after another: none sees a part of another.
//   - Endurance. What was acknowledged, or read, does not go away, for as long as
//     the database is said to live. A transaction whose outcome is unknown may be
//     carried out after its caller was told so, once.
//   - History. A watch can begin at every revision that is not compacted, and
//     brings the changes of its keys from there on, each once. History is dropped
//     by Compact, also that of other processes, and by a database that has no more
//     room. No reader can hold it back: who reads the past is told ErrCompacted.
//
// Methods may be called by many goroutines, and return when their context ends.
// After an error other than those named here, the outcome is unknown: the
// operation may have been carried out or not.
type DB interface {
	// Head returns a revision that is at least as new as every write
	// acknowledged before the call.
	Head(ctx context.Context) (int64, error)
	// Range reads keys, all at one revision, and passes them to yield (nil for a
	// count) one by one. Errors: kv.ErrCompacted, kv.ErrFuture.
	Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error)
	// Commit carries out a transaction. Errors: kv.ErrTooLarge, with which nothing
	// was changed, and kv.ErrNoSpace.
	Commit(ctx context.Context, t kv.Txn) (kv.Committed, error)
	// Watch passes the events of keys to deliver, batch by batch, until w.Until
	// is reached (it returns nil), deliver returns an error (it returns that),
	// ctx ends or the watch breaks off. Who begins it again at the revision after
	// the last that deliver was told misses nothing. Errors: kv.ErrCompacted, if
	// history from w.From on is not there any more.
	Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error
	// Compact drops the history before rev: of each key, what it was at rev and
	// all later changes stay. Errors: kv.ErrCompacted (it was compacted at rev or
	// later before), kv.ErrFuture.
	Compact(ctx context.Context, rev int64) error
	// Ping returns an error if the database does not accept requests.
	Ping(ctx context.Context) error
	// Writable returns an error if the database accepts reads but no writes:
	// its disk or its quota is full.
	Writable(ctx context.Context) error
	// MaxOps is how many operations a transaction may have, and how many conditions: kv.MaxOps or more.
	MaxOps() int
	// Size returns the size of the database.
	Size(ctx context.Context) (kv.Size, error)
}

// read reads one key as of a revision (0: the newest). It returns nil if the
// key does not exist.
func read(ctx context.Context, db ranger, key string, rev int64) (found *kv.KeyValue, err error) {
	_, err = db.Range(ctx, kv.Range{Key: key, Rev: rev}, func(k kv.KeyValue) bool {
		found = &k
		return false
	})
	return found, err
}
