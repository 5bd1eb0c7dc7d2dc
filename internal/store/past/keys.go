package past

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// The first byte of a key in the tree says what it is. Numbers are big-endian, so that keys are in their order.
const (
	changeSpace  = 'c' // kind 0 segment(4) key 0 revision(8): a change
	authorSpace  = 'a' // revision(8): who made it
	timeSpace    = 't' // milliseconds(8): the revision that was reached by then
	segmentSpace = 's' // kind 0 segment(4): a segment
	kindSpace    = 'k' // kind: since when its changes are here
	metaSpace    = 'm'
)

// reachedKey is that of the revision up to which everything was recorded, begunKey that of the one after which it began, and lastKey that of
// the last change.
var reachedKey, begunKey, lastKey = []byte{metaSpace, 'r'}, []byte{metaSpace, 'b'}, []byte{metaSpace, 'l'}

// kindOf is the beginning of a key, below the prefix of all, that the keys of its kind share: "pods/", "services/specs/",
// "example.com/widgets/"; "" if there is none.
func kindOf(key string) string {
	first, rest, ok := strings.Cut(key, "/")
	if !ok {
		return ""
	}
	if first != "services" && !strings.Contains(first, ".") {
		return key[:len(first)+1]
	}
	second, _, ok := strings.Cut(rest, "/")
	if !ok {
		return ""
	}
	return key[:len(first)+len(second)+2]
}

// segmentKey is the beginning of the keys of changes in a segment; the second form is that of the segment itself.
func segmentKey(space byte, kind string, segment uint32) []byte {
	to := make([]byte, 0, len(kind)+64)
	to = append(append(append(to, space), kind...), 0)
	return binary.BigEndian.AppendUint32(to, segment)
}

// appendChange appends to the beginning of a segment's keys.
func appendChange(segment []byte, key string, rev int64) []byte {
	to := append(segment[:len(segment):len(segment)], key...)
	return binary.BigEndian.AppendUint64(append(to, 0), uint64(rev))
}

const revisionBytes = 8

// ofChange returns the key and the revision of a change.
func ofChange(segment int, change []byte) (key string, rev int64) {
	n := len(change) - revisionBytes
	return string(change[segment : n-1]), int64(binary.BigEndian.Uint64(change[n:]))
}

// numbered is a key that ends with a number.
func numbered(space byte, n int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{space}, uint64(n))
}

func ofNumbered(key []byte) int64 { return int64(binary.BigEndian.Uint64(key[1:])) }

// end is the first key after those that begin with some bytes, which do not end with 255.
func end(prefix []byte) []byte {
	to := bytes.Clone(prefix)
	for n := len(to) - 1; n >= 0; n-- {
		if to[n]++; to[n] != 0 {
			return to[:n+1]
		}
	}
	return nil
}

// What a change is: the first byte of its value. When it came follows, in milliseconds, and then what form says.
const (
	whole   byte = iota + 1 // the value
	delta                   // what makes it of the value before it in the segment
	deleted                 // nothing: the key was deleted
	form    byte = 0x0f

	// created says that there was no such key before, and before that this is no change of the segment, but what the key was when it began.
	created byte = 0x10
	before  byte = 0x20
)

// appendEntry begins the value of a change.
func appendEntry(to []byte, what byte, ms int64) []byte {
	return binary.AppendVarint(append(to, what), ms)
}

// ofEntry is the opposite of appendEntry.
func ofEntry(value []byte) (what byte, ms int64, rest []byte, err error) {
	if len(value) == 0 {
		return 0, 0, nil, errDamaged
	}
	ms, n := binary.Varint(value[1:])
	if n <= 0 {
		return 0, 0, nil, errDamaged
	}
	return value[0], ms, value[1+n:], nil
}
