package past

import (
	"container/list"
	"hash/maphash"
)

const (
	// defaultRecent is how many bytes of values are kept in memory, for those that come after them.
	defaultRecent = 8 << 20
	// marksKept is how many keys a generation of marks has.
	marksKept = 1 << 15
)

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
	most   int
	places places
	marks  marks // of keys whose values were given up
}

// newRecent has values of most bytes.
func newRecent(most int) *recent {
	return &recent{values: map[string]*list.Element{}, marks: newMarks(), most: most}
}

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
}

// shrink gives up the values that are too many. All that was recorded of them must be in the tree.
func (r *recent) shrink() {
	for r.bytes > r.most && r.order.Len() > 1 {
		v := r.order.Back().Value.(*value)
		r.marks.put(v)
		r.delete(v.key)
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

// mark is what is known of a value but for its bytes.
type mark struct {
	rev     int64
	segment uint32
	depth   int32
}

// marks are those of the keys that were written lately, by a hash of the key: who has a key's value of the same revision knows by it how it is
// written down. There are two generations; when the younger one is full, the older one is forgotten.
type marks struct {
	seed       maphash.Seed
	young, old map[uint64]mark
}

func newMarks() marks {
	return marks{seed: maphash.MakeSeed(), young: map[uint64]mark{}, old: map[uint64]mark{}}
}

func (m *marks) put(v *value) {
	if len(m.young) >= marksKept {
		m.young, m.old = map[uint64]mark{}, m.young
	}
	m.young[maphash.String(m.seed, v.key)] = mark{v.rev, v.segment, int32(v.depth)}
}

func (m *marks) delete(key string) {
	h := maphash.String(m.seed, key)
	delete(m.young, h)
	delete(m.old, h)
}

func (m *marks) get(key string) (mark, bool) {
	h := maphash.String(m.seed, key)
	found, ok := m.young[h]
	if !ok {
		found, ok = m.old[h]
	}
	return found, ok
}
