package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// The first byte of a key in the tree says what it is.
const (
	recordSpace  = 'k'
	changesSpace = 'r'
	endsSpace    = 'e'
	metaSpace    = 'm'
)

var compactedKey = []byte{metaSpace, 'c'}

// A key of any bytes is written so that no such text begins with another one, in the order of the keys: 0 becomes 0 255, and 0 1
// ends it.
const revisionBytes = 8

// appendKey appends the part of a record's key that all revisions of a key share.
func appendKey[T string | []byte](to []byte, key T) []byte {
	to = append(to, recordSpace)
	for n := range len(key) {
		if to = append(to, key[n]); key[n] == 0 {
			to = append(to, 0xff)
		}
	}
	return append(to, 0, 1)
}

// recordKey is the key of the record of a key at a revision. Newer revisions come first.
func recordKey[T string | []byte](key T, rev int64) []byte {
	to := make([]byte, 0, len(key)+3+revisionBytes)
	return binary.BigEndian.AppendUint64(appendKey(to, key), ^uint64(rev))
}

// ofRecord is the opposite of recordKey.
func ofRecord(record []byte) (key []byte, rev int64) {
	n := len(record) - revisionBytes
	rev = int64(^binary.BigEndian.Uint64(record[n:]))
	escaped := record[1 : n-2]
	if bytes.IndexByte(escaped, 0) < 0 {
		return bytes.Clone(escaped), rev
	}
	return bytes.ReplaceAll(escaped, []byte{0, 0xff}, []byte{0}), rev
}

// comparer compares keys of the tree as bytes. It says which part of a record's key all revisions of a key share, so that the tree
// has filters by keys and can step from one key to the next.
var comparer = func() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Name = "kanzen.keys.v1"
	c.Split = func(key []byte) int {
		// The end of a key comes before the revision only in a whole record's key, not in a bound.
		if n := len(key) - revisionBytes; n > 2 && key[0] == recordSpace && key[n-2] == 0 && key[n-1] == 1 {
			return n
		}
		return len(key)
	}
	// A shortened key would have no revision.
	c.Separator = func(to, a, _ []byte) []byte { return append(to, a...) }
	c.Successor = func(to, a []byte) []byte { return append(to, a...) }
	// After all records of a key: nothing else begins with 0 2 where a key ends.
	c.ImmediateSuccessor = func(to, key []byte) []byte {
		to = append(to, key...)
		if n := len(key); n > 2 && key[0] == recordSpace && key[n-1] == 1 {
			to[len(to)-1]++
			return to
		}
		return append(to, 0)
	}
	return &c
}()

// record is a key after one of its changes.
type record struct {
	rev int64
	// created and version are those of kv.KeyValue; version is 0 for a deletion.
	created, version int64
	// ends is when the key ends, in nanoseconds since 1970; 0: never.
	ends  int64
	value []byte
}

func (r *record) exists() bool { return r.version > 0 }

func (r *record) head(to []byte) []byte {
	to = binary.AppendUvarint(to, uint64(r.version))
	to = binary.AppendUvarint(to, uint64(r.created))
	return binary.AppendUvarint(to, uint64(r.ends))
}

// errDamaged says that what was read cannot have been written here.
var errDamaged = errors.New("the database is damaged: a record cannot be read")

// recordOf decodes a record. It shares the bytes of its value.
func recordOf(rev int64, b []byte) (record, error) {
	r := record{rev: rev}
	for _, to := range []*int64{&r.version, &r.created, &r.ends} {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return record{}, errDamaged
		}
		*to, b = int64(v), b[n:]
	}
	r.value = b
	return r, nil
}

// keyValue is a record as readers see it, with a value of its own.
func (r *record) keyValue(key []byte) kv.KeyValue {
	return kv.KeyValue{Key: key, Value: bytes.Clone(r.value), CreateRevision: r.created, ModRevision: r.rev, Version: r.version}
}

func revisionKey(rev int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{changesSpace}, uint64(rev))
}

func ofRevision(key []byte) int64 { return int64(binary.BigEndian.Uint64(key[1:])) }

// change is what a transaction did to a key.
type change struct {
	key     []byte
	deleted bool
}

// appendChange appends a change to the value of a revision.
func appendChange[T string | []byte](to []byte, key T, deleted bool) []byte {
	head := uint64(len(key)) << 1
	if deleted {
		head |= 1
	}
	return append(binary.AppendUvarint(to, head), key...)
}

// changesOf decodes the value of a revision. It shares its bytes.
func changesOf(b []byte) ([]change, error) {
	var out []change
	for len(b) > 0 {
		head, n := binary.Uvarint(b)
		if n <= 0 || head>>1 > uint64(len(b)-n) {
			return nil, errDamaged
		}
		b = b[n:]
		out = append(out, change{key: b[:head>>1], deleted: head&1 == 1})
		b = b[head>>1:]
	}
	return out, nil
}

func endKey(ends int64, key string) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{endsSpace}, uint64(ends)), key...)
}

func ofEnd(b []byte) (ends int64, key string) {
	return int64(binary.BigEndian.Uint64(b[1:])), string(b[1+8:])
}

// spaceEnd is the first key after all of a space.
func spaceEnd(space byte) []byte { return []byte{space + 1} }
