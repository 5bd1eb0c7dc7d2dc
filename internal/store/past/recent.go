package past

import "container/list"

// recentBytes bounds the values that are kept in memory, for those that come after them.
const recentBytes = 8 << 20

// value is what a key is.
type value struct {
	bytes   []byte
	rev     int64
	segment uint32 // that has it
	depth   int    // how many deltas it is made of there

	key string
}

// recent has the newest values of the keys that were written last.
type recent struct {
	values map[string]*list.Element // of *value
	order  list.List                // the one that was written last first
	bytes  int
	places places
}

func newRecent() *recent { return &recent{values: map[string]*list.Element{}} }

func (r *recent) get(key string) *value {
	if at := r.values[key]; at != nil {
		return at.Value.(*value)
	}
	return nil
}

// overhead is about what a value costs beside its bytes.
const overhead = 200

func (r *recent) set(key string, v *value) {
	r.delete(key)
	v.key = key
	r.values[key] = r.order.PushFront(v)
	r.bytes += len(v.bytes) + len(key) + overhead
	for r.bytes > recentBytes && r.order.Len() > 1 {
		r.delete(r.order.Back().Value.(*value).key)
	}
}

func (r *recent) delete(key string) {
	at := r.values[key]
	if at == nil {
		return
	}
	v := at.Value.(*value)
	r.order.Remove(at)
	delete(r.values, key)
	r.bytes -= len(v.bytes) + len(key) + overhead
}
