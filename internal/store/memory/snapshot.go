package memory

import (
	"bytes"
	"sort"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Snapshot is the keys of a log at one revision. It shares its bytes with the log.
type Snapshot struct {
	rev  int64
	keys []held // in order
}

// held is a key of a snapshot.
type held struct {
	kv.KeyValue
	ends bool
}

// Snapshot returns the current keys.
func (d *DB) Snapshot() Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Snapshot{rev: d.rev}
	d.keys.Scan(func(_ string, versions []version) bool {
		if v, ok := at(versions, d.rev); ok {
			s.keys = append(s.keys, held{v.KeyValue, v.ends != 0})
		}
		return true
	})
	return s
}

// Map returns a snapshot with other values. change returns the value of a key; nil leaves the key out.
func (s Snapshot) Map(change func(key string, value []byte) []byte) Snapshot {
	out := Snapshot{rev: s.rev, keys: make([]held, 0, len(s.keys))}
	for _, k := range s.keys {
		if k.Value = change(string(k.Key), k.Value); k.Value != nil {
			out.keys = append(out.keys, k)
		}
	}
	return out
}

// find returns a key of the snapshot, and whether it has it.
func (s Snapshot) find(key string) (held, bool) {
	n := sort.Search(len(s.keys), func(n int) bool { return string(s.keys[n].Key) >= key })
	if n == len(s.keys) || string(s.keys[n].Key) != key {
		return held{}, false
	}
	return s.keys[n], true
}

// NewFrom makes a log that begins with the keys of a snapshot, at its revision. Keys that end are left out.
func NewFrom(c clock.WithDelayedExecution, s Snapshot) *DB {
	d := NewAt(c, s.rev)
	d.compacted = s.rev
	for _, k := range s.keys {
		if !k.ends {
			d.keys.Load(string(k.Key), []version{{KeyValue: k.KeyValue}})
			d.bytes += version{KeyValue: k.KeyValue}.size()
		}
	}
	return d
}

// Reset makes the keys those of a snapshot again, by one transaction at a new revision.
// Followers see it as changes. Keys that end, in the snapshot, stay as they are now. It returns the revision.
func (d *DB) Reset(s Snapshot) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ops []kv.Op
	d.keys.Scan(func(key string, versions []version) bool {
		now, ok := at(versions, d.rev)
		if !ok {
			return true
		}
		was, known := s.find(key)
		switch {
		case !known:
			ops = append(ops, kv.Op{Delete: true, Key: key})
		case !was.ends && !bytes.Equal(now.Value, was.Value):
			ops = append(ops, kv.Op{Key: key, Value: was.Value})
		}
		return true
	})
	for _, k := range s.keys {
		if _, ok := d.now(string(k.Key)); !ok && !k.ends {
			ops = append(ops, kv.Op{Key: string(k.Key), Value: k.Value})
		}
	}
	d.apply(ops, nil)
	return d.rev
}
