// Package kv has the types of the interface between a store and its database
// (store.DB), and with them what a database is to the store.
//
// It is an ordered set of keys with values. One number, the revision, counts the
// transactions that changed something: each has the next number, alone, and all
// of its changes have it. Keys compare as strings of bytes. The changes of all
// keys, in the order of their revisions, are the database's history, which is
// there from some revision on: what is older is compacted. A key that is deleted
// and put again begins anew.
//
// Bytes in these types are shared, not copied, and must not be changed.
package kv

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"time"
)

// Errors that a store distinguishes.
var (
	// ErrCompacted: the revision is older than the history that is kept.
	ErrCompacted = errors.New("revision is compacted")
	// ErrFuture: the revision is newer than the newest.
	ErrFuture = errors.New("revision is in the future")
	// ErrTooLarge: a value is larger than the database accepts.
	ErrTooLarge = errors.New("request is too large")
	// ErrNoSpace: the disk or the quota of the database is full.
	ErrNoSpace = errors.New("the database has no space left")
)

// Bounds that every database can hold: it takes transactions with so many
// operations, and as many conditions, and values of so many bytes. It need not
// take more.
const (
	MaxOps   = 128
	MaxBytes = 1 << 20
)

// KeyValue is a key at one revision.
type KeyValue struct {
	Key, Value []byte
	// CreateRevision is the revision of the key's creation, ModRevision the
	// revision of its newest change.
	CreateRevision, ModRevision int64
	// Version counts the changes; the creation is 1.
	Version int64
}

// Event is one change of one key. To put the value that is there already is a
// change too; to delete a key that does not exist is none.
type Event struct {
	// KeyValue is the key after the change; of a deletion it has only the key
	// and the revision.
	KeyValue
	Deleted bool
	// Prev is the key before the change. Its revisions are 0 if the key did not
	// exist, if Prev was not asked for, or if it is compacted.
	Prev KeyValue
	// At is the revision of the event if it is not that of a change of the key: the key is one of those of somebody's view of a
	// database, and has come into that view, or gone from it, as it was. 0: it is the ModRevision.
	At int64
}

// Revision is the revision of the event.
func (e *Event) Revision() int64 {
	if e.At != 0 {
		return e.At
	}
	return e.ModRevision
}

// Created says that the key did not exist before.
func (e *Event) Created() bool { return !e.Deleted && (e.At != 0 || e.CreateRevision == e.ModRevision) }

// Record is a key at one of the revisions of which a database keeps it.
type Record struct {
	// KeyValue is the key after a change; of a deletion it has only the key and
	// the revision.
	KeyValue
	Deleted bool
	// Newest says that the key has no later record: without Deleted, it is what
	// the key is now. What is not, or is deleted, goes with the next compaction.
	Newest bool
	// Ends is when the database deletes the key by itself, in nanoseconds since
	// 1970; 0: never.
	Ends int64
	// Bytes is what the record takes in the database, before it compresses them.
	Bytes int
}

// Extent says which records a database has.
type Extent struct {
	// Head is the newest revision. Before Compacted the history is not complete
	// any more: of a key there is its newest record up to then, if it existed.
	Head, Compacted int64
}

// Reading says how records are read.
type Reading struct {
	// Begin is called once, before the first record. Optional.
	Begin func(Extent) error
	// ByRevision asks for the order of revisions, which may take memory for each
	// record. Otherwise the order is the database's.
	ByRevision bool
	// Step is called for each record that is read, also if it is read only to
	// learn which others there are. An error of it ends the reading. Optional.
	Step func() error
}

// Read calls Step.
func (r *Reading) Read() error {
	if r.Step == nil {
		return nil
	}
	return r.Step()
}

// Recorded is a database that passes on all records that it keeps, of one
// moment. They are valid during the call of each. The database takes writes
// meanwhile.
type Recorded interface {
	Records(ctx context.Context, how Reading, each func(*Record) error) error
}

// CompareEvents is the order of events: by revision, and those of a transaction by key.
func CompareEvents(a, b Event) int {
	if c := cmp.Compare(a.Revision(), b.Revision()); c != 0 {
		return c
	}
	return bytes.Compare(a.Key, b.Key)
}

// Range asks for keys in ascending order.
type Range struct {
	// Key is the first key of the range, and End the first key after it; an
	// empty End means Key alone, NoEnd all keys from Key on.
	Key, End string
	// Rev is the revision to read at; 0: the newest.
	Rev int64
	// Limit is how many keys are wanted at most; 0: all.
	Limit int64
	// CountOnly asks for no keys, only for their number.
	CountOnly bool
}

// Answer is the result of a Range beside its keys.
type Answer struct {
	// Rev is the newest revision at the time of the read.
	Rev int64
	// Count is the number of keys in the range. If the limit has left out some,
	// it is more than the limit, and need not have counted all: a database that
	// keeps no count would have to walk over the rest, once for each page.
	Count int64
	// More says that the limit has left out some keys.
	More bool
}

// NoEnd is the end of a range that has none.
const NoEnd = "\x00"

// After is the smallest key after key.
func After(key []byte) string { return string(key) + "\x00" }

// PrefixEnd is the first key after all keys with a prefix.
func PrefixEnd(prefix string) string {
	end := []byte(prefix)
	for n := len(end) - 1; n >= 0; n-- {
		if end[n] < 0xff {
			end[n]++
			return string(end[:n+1])
		}
	}
	return NoEnd
}

// Txn is a transaction: if all conditions hold, all operations are done at one
// new revision; if not, nothing is changed and some keys are read. There are
// operations, and each is about another key.
type Txn struct {
	If   []Condition
	Then []Op
	// Else are the keys to read if a condition does not hold, at the revision at
	// which it does not.
	Else []string
	// ElseKeys says that only the keys are wanted, without their values.
	ElseKeys bool
}

// Condition compares a key with N. A key that does not exist has revision 0 and
// version 0.
type Condition struct {
	Key string
	Is  Comparison
	N   int64
}

// Comparison says how a Condition compares.
type Comparison int

// The comparisons.
const (
	ModRevision       Comparison = iota // the key's ModRevision is N
	ModRevisionAtMost                   // the key's ModRevision is N or less
	Version                             // the key's Version is N
)

// Op puts a value under a key, or deletes the key.
type Op struct {
	Delete bool
	Key    string
	Value  []byte
	// TTL is the time after which the database deletes the key by itself, unless
	// it is put or deleted before; 0: never. The database may be late by Late.
	// Keys may be deleted together, at one revision.
	TTL time.Duration
	// KeepTTL leaves the key, which exists, with the end that it has.
	KeepTTL bool
}

// Late is how much later than after its TTL a key may be deleted, while the
// database runs: so keys that were put at about the same time end together, and
// an end is not a transaction of its own. It is in whole seconds.
func Late(ttl time.Duration) time.Duration {
	return min(time.Minute, ttl/20).Truncate(time.Second)
}

// Committed is the result of a transaction.
type Committed struct {
	// Held says that the conditions held.
	Held bool
	// Rev is the newest revision after the transaction: its own if it changed
	// anything.
	Rev int64
	// Else are the keys of Txn.Else, in that order, if a condition did not hold;
	// nil for one that does not exist.
	Else []*KeyValue
}

// Size is that of a database, in bytes.
type Size struct {
	// Bytes are allocated; of those InUse hold something, and the rest a defragmentation gives back.
	Bytes, InUse int64
	// Quota is how many there may be; 0: that is not known.
	Quota int64
}

// Watch asks for the events of keys.
type Watch struct {
	// Key is one key, or with Prefix the prefix of many.
	Key    string
	Prefix bool
	// From is the first revision of interest, 1 or more; it may be in the future.
	From int64
	// Until is the last revision of interest; 0: none. The watch ends once it
	// has delivered everything up to it.
	Until int64
	// Prev asks for the values before the changes too.
	Prev bool
	// Ask requests the watch's progress: a send makes Deliver be called with
	// the revision that the watch has reached, also where that brings no events.
	// A request may be lost; who still waits asks again. Optional.
	Ask <-chan struct{}
}

// Deliver takes the next events of a watch, in the order of their revisions,
// and the revision up to which these and earlier calls are complete. A
// transaction is never split between calls; there may be no events. The slice
// may be used only until Deliver returns, the bytes also after that. An error
// ends the watch.
type Deliver func(events []Event, rev int64) error

// Yield takes one key of a range; false ends the reading.
type Yield func(KeyValue) bool
