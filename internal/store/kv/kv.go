// Package kv has the few types in which a store speaks with its database: an
// ordered set of keys with values, one number (the revision) that counts its
// transactions, and the history of both back to a compaction. Their meaning is
// etcd's. What a database has to do with them is stated by store.DB.
//
// Bytes in these types are shared, not copied: nobody changes them.
package kv

import "errors"

// Errors that a store tells apart.
var (
	// ErrCompacted: the revision is older than the history that is kept.
	ErrCompacted = errors.New("revision is compacted")
	// ErrFuture: the revision has not come yet.
	ErrFuture = errors.New("revision is in the future")
	// ErrNoLease: the lease does not exist, or no more.
	ErrNoLease = errors.New("lease not found")
	// ErrTooLarge: a value is larger than the database takes.
	ErrTooLarge = errors.New("request is too large")
)

// KeyValue is a key at one revision.
type KeyValue struct {
	Key, Value []byte
	// CreateRevision is that of the key's creation, ModRevision that of its
	// newest change.
	CreateRevision, ModRevision int64
	// Version counts the changes since the creation, which is 1.
	Version int64
}

// Event is one change of one key.
type Event struct {
	// KeyValue is the key after the change; of a deletion it has only the key
	// and the revision.
	KeyValue
	Deleted bool
	// Prev is the key before the change. Its revisions are 0 if it was not
	// there, was not asked for, or is compacted.
	Prev KeyValue
}

// Created says that the key was not there before.
func (e *Event) Created() bool { return !e.Deleted && e.CreateRevision == e.ModRevision }

// Range asks for keys in their order.
type Range struct {
	// Key is the first key, and End the first that is not meant any more;
	// empty: only Key itself is meant.
	Key, End string
	// Rev is the revision to read at; 0: the newest.
	Rev int64
	// Limit is how many keys are wanted at most; 0: all.
	Limit int64
	// CountOnly asks for no keys, only for their number.
	CountOnly bool
}

// Answer is what a Range gives beside its keys.
type Answer struct {
	// Rev is the newest revision as of the reading.
	Rev int64
	// Count is how many keys there are in the range, whatever the limit.
	Count int64
	// More says that the limit has left some out.
	More bool
}

// After is the smallest key behind key.
func After(key []byte) string { return string(key) + "\x00" }

// PrefixEnd is the first key that is behind all those with a prefix.
func PrefixEnd(prefix string) string {
	end := []byte(prefix)
	for n := len(end) - 1; n >= 0; n-- {
		if end[n] < 0xff {
			end[n]++
			return string(end[:n+1])
		}
	}
	return "\x00" // etcd's word for no end
}

// Txn is a transaction: if all conditions hold, all operations are done at one
// new revision; if not, nothing is changed and a key is read.
type Txn struct {
	If   []Condition
	Then []Op
	// Else is the key to read if a condition does not hold; empty: none.
	Else string
	// ElseKey says that the value of that key is not wanted.
	ElseKey bool
}

// Condition compares a key with N. A key that is not there has the revision 0
// and the version 0.
type Condition struct {
	Key string
	Is  Comparison
	N   int64
}

// Comparison is what has to be so for a Condition to hold.
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
	Lease  Lease // of a value that goes with it; 0: none
}

// Lease is the number of a lease: keys that were put with it go when it ends.
type Lease int64

// Committed is what became of a transaction that was carried out.
type Committed struct {
	// Held says that the conditions held.
	Held bool
	// Rev is the newest revision after the transaction: its own if it has
	// changed anything.
	Rev int64
	// Else is the key that was read because a condition did not hold; nil: it
	// is not there, or was not asked for.
	Else *KeyValue
}

// Watch asks for the events of keys.
type Watch struct {
	// Key is one key, or with Prefix the beginning of many.
	Key    string
	Prefix bool
	// From is the first revision of interest.
	From int64
	// Until is the last; 0: there is no last. A watch that has delivered all
	// up to it ends.
	Until int64
	// Prev asks for the keys before the changes too.
	Prev bool
	// Ask may be sent to by who wants to be told how far the watch is. Optional.
	Ask <-chan struct{}
}

// Deliver takes the next events of a watch, in the order of their revisions and
// never a part of a transaction, and the revision up to which these and earlier
// calls have told all; there may be no events. They are the caller's again when
// it returns (the bytes stay). An error ends the watch.
type Deliver func(events []Event, rev int64) error

// Yield takes one key of a range; false ends the reading.
type Yield func(KeyValue) bool
