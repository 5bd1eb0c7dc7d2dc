package past

import (
	"encoding/binary"
	"errors"
	"hash/fnv"

	"github.com/cockroachdb/pebble/v2"
)

// lastChange is what was recorded last. By it a log is known again.
type lastChange struct {
	key     string // below the prefix
	rev     int64
	deleted bool
	hash    uint64 // of the value
}

func lastChangeOf(key string, rev int64, value []byte) lastChange {
	h := fnv.New64a()
	_, _ = h.Write(value)
	return lastChange{key: key, rev: rev, hash: h.Sum64()}
}

func (l *lastChange) bytes() []byte {
	gone := byte(0)
	if l.deleted {
		gone = 1
	}
	return append(append(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(l.rev)), l.hash), gone), l.key...)
}

// lastChange reads what was recorded last; nil: nothing was.
func (p *Past) lastChange() (_ *lastChange, err error) {
	done, err := p.use()
	if err != nil {
		return nil, err
	}
	defer done()
	defer p.broken.Recover(&err)
	value, free, err := p.tree.Get(lastKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l := &lastChange{}
	if len(value) > 17 {
		l.rev, l.hash = int64(binary.BigEndian.Uint64(value)), binary.BigEndian.Uint64(value[8:])
		l.deleted, l.key = value[16] == 1, string(value[17:])
	}
	return l, free.Close()
}
