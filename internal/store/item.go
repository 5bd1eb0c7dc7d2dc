package store

import (
	"strings"
	"sync/atomic"
	"unsafe"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Item is one stored object at one revision.
type Item struct {
	// Key is below the view's prefix: "namespace/name" or "name".
	Key string
	// Rev is the revision that wrote it: the object's resourceVersion. The
	// item of a deletion event carries the revision of the deletion.
	Rev int64
	// Stale says that storing the same object again would give other bytes: the
	// encryption key has changed.
	Stale   bool
	counted bool   // among the bytes of View.plain; guarded by View.mu
	size    uint32 // of the value
	// Err says why the stored bytes could not be decrypted; the value is then nil.
	Err error

	// The stored value, decrypted, is where plain points to or, if that is nil, in a slot. There is neither if it is nil.
	plain atomic.Pointer[byte]
	slot  atomic.Pointer[slot]
	asked atomic.Bool // for the value, since it was last looked whether to compress it

	complete  atomic.Int32 // one of the values below
	sound     atomic.Bool
	labels    atomic.Pointer[labels.Set]
	labelBits atomic.Uint64
	fields    atomic.Pointer[fields.Set]
	enc       atomic.Pointer[encoding]
}

// NewItem makes an item of a stored value, which must not be changed any more.
func NewItem(key string, rev int64, value []byte) *Item {
	i := &Item{Key: key, Rev: rev}
	i.set(value)
	return i
}

// set gives a new item its value. An item has only the address and the size of it, as there are very many items.
func (i *Item) set(value []byte) {
	i.plain.Store(unsafe.SliceData(value))
	i.size = uint32(len(value)) // etcd takes no larger ones
}

// inMemory returns the value unless it is compressed.
func (i *Item) inMemory() ([]byte, bool) {
	if p := i.plain.Load(); p != nil {
		return unsafe.Slice(p, i.size), true
	}
	return nil, i.slot.Load() == nil
}

// Value is the stored value, decrypted. It must not be changed. Who reads many items one after another uses Values.
func (i *Item) Value() []byte {
	if !i.asked.Load() {
		i.asked.Store(true)
	}
	return i.peek()
}

// peek is Value for who is not a sign that others will ask.
func (i *Item) peek() []byte {
	if v, ok := i.inMemory(); ok {
		return v
	}
	return i.slot.Load().value(i.Size())
}

// Size is how many bytes the value has.
func (i *Item) Size() int { return int(i.size) }

// Whether nothing is to be filled in when an item's value is read.
const (
	unexamined int32 = iota
	complete
	incomplete
)

// Sound says that the value was read whole before, without an error: it will be again.
func (i *Item) Sound() bool { return i.sound.Load() }

// SetSound notes that the value was read whole without an error.
func (i *Item) SetSound() {
	if !i.sound.Load() {
		i.sound.Store(true)
	}
}

// Namespace returns the object's namespace; "" if it has none.
func (i *Item) Namespace() string { return namespaceOf(i.Key) }

func namespaceOf(key string) string {
	namespace, _, namespaced := strings.Cut(key, "/")
	if !namespaced {
		return ""
	}
	return namespace
}

// Name is the object's name.
func (i *Item) Name() string { return i.Key[strings.LastIndexByte(i.Key, '/')+1:] }

// encoding is one cached form of an item, in a list of few: its bytes, its
// selectable fields, or its object.
type encoding struct {
	key    any
	bytes  []byte
	fields fields.Set
	object any
	next   *encoding
	used   atomic.Uint32 // the period of the budget in which somebody last asked for it
}

// encoded returns the form that key stands for, or nil if it is not cached.
func (i *Item) encoded(key any) *encoding {
	for e := i.enc.Load(); e != nil; e = e.next {
		if e.key == key {
			return e
		}
	}
	return nil
}

// ask returns the form as encoded does, and notes that somebody has asked for it.
func (i *Item) ask(b *Budget, key any) *encoding {
	e := i.encoded(key)
	if e != nil && i.Rev > b.lent {
		if now := b.period.Load(); e.used.Load() != now {
			e.used.Store(now)
		}
	}
	return e
}

// usedSince says whether somebody has asked for one of the item's forms in a period, or after it.
func (i *Item) usedSince(period uint32) bool {
	for e := i.enc.Load(); e != nil; e = e.next {
		if int32(e.used.Load()-period) >= 0 {
			return true
		}
	}
	return false
}

// keep caches a form of size bytes with the item.
func (i *Item) keep(b *Budget, n *encoding, size int) {
	if i.Rev <= b.lent {
		return
	}
	n.used.Store(b.period.Load())
	for {
		n.next = i.enc.Load()
		if i.enc.CompareAndSwap(n.next, n) {
			break
		}
	}
	b.added(i, size)
}

// Encoded says whether the form that key stands for is cached.
func (i *Item) Encoded(key any) bool { return i.encoded(key) != nil }

// Kept returns the form that key stands for, if it is cached.
func (i *Item) Kept(b *Budget, key any) ([]byte, bool) {
	if e := i.ask(b, key); e != nil {
		return e.bytes, true
	}
	return nil, false
}

// Encoding returns the item in the form that key stands for, made by encode
// when first needed and cached while the budget allows. Key must be comparable
// and stand for the same encode func everywhere.
func (i *Item) Encoding(b *Budget, key any, encode func(*Item) ([]byte, error)) ([]byte, error) {
	if e := i.ask(b, key); e != nil {
		return e.bytes, nil
	}
	bytes, err := encode(i)
	if err != nil {
		return nil, err
	}
	i.keep(b, &encoding{key: key, bytes: bytes}, len(bytes))
	return bytes, nil
}

// Selectable is like Encoding, for the fields that selectors read. It is for
// kinds whose fields the view cannot read because they differ by version.
func (i *Item) Selectable(b *Budget, key any, read func(*Item) (fields.Set, error)) (fields.Set, error) {
	if e := i.ask(b, key); e != nil {
		return e.fields, nil
	}
	set, err := read(i)
	if err != nil {
		return nil, err
	}
	size := 0
	for k, v := range set {
		size += len(k) + len(v) + fieldCost
	}
	i.keep(b, &encoding{key: key, fields: set}, size)
	return set, nil
}

// fieldCost is the overhead of a field in bytes.
const fieldCost = 48

// decodedCost is about how many times larger an object is than its stored
// bytes.
const decodedCost = 4

// Decoded is like Encoding, for the item's object. All callers get the same
// object, and must not change it.
func (i *Item) Decoded(b *Budget, key any, decode func(*Item) (any, error)) (any, error) {
	if e := i.ask(b, key); e != nil {
		return e.object, nil
	}
	obj, err := decode(i)
	if err != nil {
		return nil, err
	}
	i.keep(b, &encoding{key: key, object: obj}, decodedCost*i.Size())
	return obj, nil
}
