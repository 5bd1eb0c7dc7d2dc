package memory

import (
	"maps"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// end is the keys that end at one time.
type end struct {
	keys  map[string]bool
	timer clock.Timer // nil until it is armed
}

// ends are the times, in nanoseconds since 1970, at which the puts of a transaction end; 0: never. It is nil if none ends. It
// reads the clock, and so is called without the lock: a clock may hold a lock of its own while it calls expire.
func (d *DB) ends(ops []kv.Op) []int64 {
	var out []int64
	for n, o := range ops {
		if o.TTL <= 0 || o.Delete {
			continue
		}
		if out == nil {
			out = make([]int64, len(ops))
		}
		at := d.clock.Now().Add(o.TTL)
		if late := kv.Late(o.TTL); late > 0 {
			at = at.Truncate(late).Add(late)
		}
		out[n] = at.UnixNano()
	}
	return out
}

// rebind moves a key from one end to another; 0: none.
func (d *DB) rebind(key string, from, to int64) {
	if e := d.expiring[from]; e != nil {
		delete(e.keys, key)
	}
	if to == 0 {
		return
	}
	e := d.expiring[to]
	if e == nil {
		e = &end{keys: map[string]bool{}}
		d.expiring[to] = e
	}
	e.keys[key] = true
}

// arm starts the timers of ends that have none. It is called without the lock, as a clock may call expire at once.
func (d *DB) arm(ends []int64) {
	for _, at := range ends {
		d.mu.Lock()
		e := d.expiring[at]
		armed := e == nil || e.timer != nil
		d.mu.Unlock()
		if armed {
			continue
		}
		timer := d.clock.AfterFunc(time.Unix(0, at).Sub(d.clock.Now()), func() { d.expire(at) })
		d.mu.Lock()
		if e.timer == nil {
			e.timer, timer = timer, nil
		}
		d.mu.Unlock()
		if timer != nil {
			timer.Stop() // another put was faster
		}
	}
}

// expire deletes the keys that end at a time, at one revision.
func (d *DB) expire(at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.expiring[at]
	if e == nil {
		return
	}
	delete(d.expiring, at)
	var ops []kv.Op
	for _, key := range slices.Sorted(maps.Keys(e.keys)) {
		ops = append(ops, kv.Op{Delete: true, Key: key})
	}
	d.apply(ops, nil)
}

// Close stops the timers. Keys stay as they are.
func (d *DB) Close() error {
	var timers []clock.Timer
	d.mu.Lock()
	for _, e := range d.expiring {
		if e.timer != nil {
			timers = append(timers, e.timer)
		}
	}
	d.mu.Unlock()
	for _, t := range timers {
		t.Stop()
	}
	return nil
}
