package replica

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/past"
)

// A chunk is changes one after another, compressed: consecutive values of a key hardly differ, so that what is alike costs nothing. Each
// change begins with a byte of flags. The first one of a key has the value before it, so that a chunk needs no other one.
const (
	created byte = 1 << iota
	deleted
	withPrev // the value before, if the chunk has none yet
)

// largest bounds the bytes of a chunk that is read, which may be damaged. No chunk has more than past.MostAtOnce, and what is about the changes.
const largest = 2 * past.MostAtOnce

var errDamaged = errors.New("the shared history is damaged")

// encode makes a chunk.
func encode(changes []past.Dated) []byte {
	known := map[string]bool{}
	size := 0
	for n := range changes {
		size += len(changes[n].Key) + len(changes[n].Value)
	}
	raw := make([]byte, 0, size)
	var rev, ms int64
	for n := range changes {
		d := &changes[n]
		key := string(d.Key)
		flags := byte(0)
		switch {
		case d.Created():
			flags |= created
		case !known[key]:
			flags |= withPrev
		}
		if d.Deleted {
			flags |= deleted
		}
		known[key] = true
		raw = append(raw, flags)
		raw = binary.AppendVarint(raw, d.ModRevision-rev)
		raw = binary.AppendVarint(raw, d.At.UnixMilli()-ms)
		rev, ms = d.ModRevision, d.At.UnixMilli()
		raw = appendBytes(raw, d.Key)
		for _, text := range author(&d.Author) {
			raw = appendBytes(raw, []byte(*text))
		}
		if flags&withPrev != 0 {
			raw = binary.AppendVarint(raw, d.Prev.ModRevision)
			raw = appendBytes(raw, d.Prev.Value)
		}
		if !d.Deleted {
			raw = appendBytes(raw, d.Value)
		}
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(8<<20), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		panic(err) // the options are wrong
	}
	return w.EncodeAll(raw, nil)
}

// author has the texts about an author.
func author(a *store.Author) [5]*string {
	return [...]*string{&a.User, &a.UserAgent, &a.Verb, &a.Subresource, &a.Request}
}

func appendBytes(to, bytes []byte) []byte {
	return append(binary.AppendUvarint(to, uint64(len(bytes))), bytes...)
}

// decode is the opposite of encode. Each change that is no creation has the value before it.
func decode(chunk []byte) ([]past.Dated, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(largest))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	raw, err := r.DecodeAll(chunk, nil)
	if err != nil {
		return nil, errors.Join(errDamaged, err)
	}
	var changes []past.Dated
	known := map[string]kv.KeyValue{}
	d := decoder{rest: raw}
	for len(d.rest) > 0 && !d.bad {
		c := d.change()
		d.bad = d.bad || len(c.Key) == 0
		if !c.Created() && c.Prev.ModRevision == 0 {
			c.Prev = known[string(c.Key)]
		}
		if known[string(c.Key)] = c.KeyValue; c.Deleted {
			known[string(c.Key)] = kv.KeyValue{}
		}
		changes = append(changes, c)
	}
	if d.bad {
		return nil, errDamaged
	}
	return changes, nil
}

// decoder reads what a chunk holds.
type decoder struct {
	rest    []byte
	rev, ms int64
	bad     bool
}

func (d *decoder) change() (c past.Dated) {
	flags := d.rest[0]
	d.rest = d.rest[1:]
	d.rev += d.number()
	d.ms += d.number()
	c.Key, c.ModRevision, c.At, c.Deleted = d.bytes(), d.rev, time.UnixMilli(d.ms), flags&deleted != 0
	for _, text := range author(&c.Author) {
		*text = string(d.bytes())
	}
	if flags&created != 0 {
		c.CreateRevision = d.rev
	}
	if flags&withPrev != 0 {
		c.Prev.ModRevision = d.number()
		c.Prev.Value = d.bytes()
	}
	if !c.Deleted {
		c.Value = d.bytes()
	}
	return c
}

func (d *decoder) number() int64 {
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *decoder) bytes() []byte {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || n > uint64(len(d.rest)-size) {
		d.bad, d.rest = true, nil
		return nil
	}
	out := d.rest[size : size+int(n) : size+int(n)]
	d.rest = d.rest[size+int(n):]
	return out
}
