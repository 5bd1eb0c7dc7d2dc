package pebble

// headsKept is how many keys a generation of heads has.
const headsKept = 1 << 14

// head is what a transaction has to know of a key: its newest record, without the value. version is 0 if the key does not exist.
type head struct {
	rev, created, version, ends int64
}

// heads are the newest records of keys that were written or asked for lately: most transactions are about such a key, and need not look for
// it in the tree. There are two generations; when the younger one is full, the older one is forgotten. It belongs to who holds the lock.
type heads struct {
	young, old map[string]head
}

func newHeads() *heads { return &heads{young: map[string]head{}, old: map[string]head{}} }

func (h *heads) get(key string) (head, bool) {
	if found, ok := h.young[key]; ok {
		return found, true
	}
	found, ok := h.old[key]
	if ok {
		h.put(key, found)
	}
	return found, ok
}

func (h *heads) put(key string, is head) {
	if h.young[key] = is; len(h.young) >= headsKept {
		h.young, h.old = make(map[string]head, headsKept), h.young
	}
}
