package past

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// This file describes a value by another one, as a sequence of pieces: bytes of its own, and copies of what the other one has. A piece begins
// with a varint, its length times two, plus one for a copy; the offset of a copy follows as a varint. Ahead of all stands the length of the value.

const (
	// tableBits is the logarithm of how many places of the base are known at a time.
	tableBits = 12
	// every is how many bytes lie between places of the base that are known.
	every = 4
	// least is how long a copy is at least, and chance how long one that may be like the value by chance: values repeat themselves.
	least, chance = 12, 48
)

// places finds eight bytes in a base: by their hash, where they are plus one.
type places [1 << tableBits]uint32

func hash(v uint64) uint32 { return uint32(v * 0x9e3779b97f4a7c15 >> (64 - tableBits)) }

// appendDelta appends what makes value of base. It stops, and returns false, where that is no shorter than most.
func appendDelta(to []byte, base, value []byte, most int, p *places) ([]byte, bool) {
	begun := len(to)
	to = binary.AppendUvarint(to, uint64(len(value)))
	prefix := same(base, value)
	if prefix < least {
		prefix = 0
	} else {
		to = appendCopy(to, 0, prefix)
	}
	suffix := sameEnd(base[prefix:], value[prefix:])
	if suffix < least {
		suffix = 0
	}
	to = appendMiddle(to, base, value[:len(value)-suffix], prefix, p)
	if suffix > 0 {
		to = appendCopy(to, len(base)-suffix, suffix)
	}
	return to, len(to)-begun < most
}

// nearby is how far ahead it is looked whether a value goes on as the base does: most changes replace a few bytes by as many.
const nearby = 64

// appendMiddle appends pieces for the rest of a value from at on, where a copy of the base up to there has ended.
func appendMiddle(to []byte, base, value []byte, at int, p *places) []byte {
	written := at // of value
	from, at, ok := resumed(base, value, at, 0)
	known := false
	for at+8 <= len(value) {
		if !ok {
			if !known {
				p.fill(base)
				known = true
			}
			if from, at, ok = p.find(base, value, at); !ok {
				break
			}
		}
		before := sameEnd(base[:from], value[written:at])
		n := before + same(base[from:], value[at:])
		if ok = n >= chance || n == len(value)-written; !ok {
			at++
			continue
		}
		to = appendLiteral(to, value[written:at-before])
		to = appendCopy(to, from-before, n)
		at += n - before
		written = at
		from, at, ok = resumed(base, value, at, from+n-before-at)
	}
	return appendLiteral(to, value[written:])
}

// resumed returns where the base goes on as the value does soon after at, no further apart than before; otherwise at as it was.
func resumed(base, value []byte, at, shift int) (from, found int, ok bool) {
	for n := at; n < at+nearby && n+8 <= len(value) && n+shift+8 <= len(base); n++ {
		if word(value, n) != word(base, n+shift) {
			continue
		}
		if l := same(base[n+shift:], value[n:]); l >= chance || l == len(value)-n {
			return n + shift, n, true
		}
	}
	return 0, at, false
}

func (p *places) fill(base []byte) {
	clear(p[:])
	for at := 0; at+8 <= len(base); at += every {
		p[hash(word(base, at))] = uint32(at + 1)
	}
}

// find returns the next place of a value, from at on, that the base has too, and where.
func (p *places) find(base, value []byte, at int) (from, found int, ok bool) {
	for ; at+8 <= len(value); at++ {
		v := word(value, at)
		if from := int(p[hash(v)]) - 1; from >= 0 && word(base, from) == v {
			return from, at, true
		}
	}
	return 0, at, false
}

func word(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }

func appendLiteral(to, bytes []byte) []byte {
	if len(bytes) == 0 {
		return to
	}
	to = binary.AppendUvarint(to, uint64(len(bytes))<<1)
	return append(to, bytes...)
}

func appendCopy(to []byte, from, n int) []byte {
	to = binary.AppendUvarint(to, uint64(n)<<1|1)
	return binary.AppendUvarint(to, uint64(from))
}

// same is how many bytes two begin with in common.
func same(a, b []byte) (n int) {
	for ; n+8 <= len(a) && n+8 <= len(b); n += 8 {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
	}
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// sameEnd is how many bytes two end with in common.
func sameEnd(a, b []byte) (n int) {
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

var errDamaged = errors.New("the history is damaged: a value cannot be made of the one before it")

// maxValue bounds a value that is made of a delta: what is read may be damaged.
const maxValue = 64 << 20

// applyDelta returns the value that a delta makes of base.
func applyDelta(base, delta []byte) ([]byte, error) {
	size, n := binary.Uvarint(delta)
	if n <= 0 || size > maxValue {
		return nil, errDamaged
	}
	delta = delta[n:]
	value := make([]byte, 0, size)
	for len(delta) > 0 {
		piece, n := binary.Uvarint(delta)
		if n <= 0 {
			return nil, errDamaged
		}
		delta = delta[n:]
		from, length := delta, piece>>1
		if piece&1 == 1 {
			offset, n := binary.Uvarint(delta)
			if n <= 0 || offset > uint64(len(base)) {
				return nil, errDamaged
			}
			delta, from = delta[n:], base[offset:]
		}
		if length > uint64(len(from)) || uint64(len(value))+length > size {
			return nil, errDamaged
		}
		value = append(value, from[:length]...)
		if piece&1 == 0 {
			delta = delta[length:]
		}
	}
	if uint64(len(value)) != size {
		return nil, errDamaged
	}
	return value, nil
}
