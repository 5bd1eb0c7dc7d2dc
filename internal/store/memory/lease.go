package memory

import (
	"maps"
	"slices"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// lease is a set of keys that expire together.
type lease struct {
	keys  map[string]bool
	timer clock.Timer // nil until Grant has set it
}

// rebind moves a key from one lease to another; 0: none.
func (d *DB) rebind(key string, from, to kv.Lease) {
	if l := d.leases[from]; l != nil {
		delete(l.keys, key)
	}
	if l := d.leases[to]; l != nil {
		l.keys[key] = true
	}
}

// expire ends a lease: its keys are deleted at one revision.
func (d *DB) expire(id kv.Lease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.leases[id]
	if l == nil {
		return
	}
	delete(d.leases, id)
	var ops []kv.Op
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		ops = append(ops, kv.Op{Delete: true, Key: key})
	}
	d.apply(ops)
}
