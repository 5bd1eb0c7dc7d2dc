package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

// This file reads as much of the protobuf wire format of stored objects as is
// needed to serve them without decoding: the envelope (magic, then
// runtime.Unknown), the ObjectMeta, which is field 1 of every kind, and in it the
// labels (11) and the place of the resourceVersion (6), which is not stored.

// magic begins every protobuf object, stored or sent.
var magic = []byte("k8s\x00")

const (
	tagBytes1 = 1<<3 | 2 // field 1, length-delimited: ObjectMeta, TypeMeta, ListMeta
	tagBytes2 = 2<<3 | 2 // field 2, length-delimited: Unknown.raw, List.items
	tagRV     = 6<<3 | 2
	tagLabels = 11<<3 | 2
)

var errWire = errors.New("malformed protobuf")

// envelope splits a stored or sent object into its type and its bytes.
func envelope(data []byte) (gvk schema.GroupVersionKind, raw []byte, err error) {
	if !bytes.HasPrefix(data, magic) {
		return gvk, nil, errNoPrefix
	}
	var u runtime.Unknown
	if err := u.Unmarshal(data[len(magic):]); err != nil {
		return gvk, nil, err
	}
	return schema.FromAPIVersionAndKind(u.APIVersion, u.Kind), u.Raw, nil
}

// emptyObject is an object in which nothing is set.
var emptyObject = []byte{tagBytes1, 0}

// rawOf returns the object's bytes inside a stored envelope, not copied. No server stores an empty value, but as in
// kube-apiserver one that somebody has put into etcd is an empty object: it makes no list fail, and can be deleted.
func rawOf(stored []byte) ([]byte, error) {
	if len(stored) == 0 {
		return emptyObject, nil
	}
	if !bytes.HasPrefix(stored, magic) {
		return nil, errNoPrefix
	}
	var raw []byte
	for b := stored[len(magic):]; len(b) > 0; {
		num, val, rest, err := wireField(b)
		if err != nil {
			return nil, err
		}
		if num == 2 {
			raw = val
		}
		b = rest // what follows the object is looked at too: an envelope that is broken there is corrupt data
	}
	return raw, nil
}

// typeMeta encodes a runtime.TypeMeta, with its tag, as field 1 of an envelope.
func typeMeta(gvk schema.GroupVersionKind) []byte {
	t := runtime.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}
	inner, err := t.Marshal()
	if err != nil {
		panic(err) // encoding two strings cannot fail
	}
	return append(binary.AppendUvarint([]byte{tagBytes1}, uint64(len(inner))), inner...)
}

// envelopeTail is contentEncoding and contentType, both empty but present.
var envelopeTail = []byte{0x1a, 0, 0x22, 0}

// appendEnvelope appends the envelope of an object of n bytes, up to those bytes.
// The caller appends the bytes and envelopeTail.
func appendEnvelope(dst, typeMeta []byte, n int) []byte {
	dst = append(dst, magic...)
	dst = append(dst, typeMeta...)
	dst = append(dst, tagBytes2)
	return binary.AppendUvarint(dst, uint64(n))
}

// wireField reads one field: its number, its bytes if it is length-delimited, and
// the bytes after it.
func wireField(b []byte) (num int, val, rest []byte, err error) {
	tag, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, nil, errWire
	}
	b = b[n:]
	switch tag & 7 {
	case 0:
		if _, n = binary.Uvarint(b); n <= 0 {
			return 0, nil, nil, errWire
		}
	case 1:
		n = 8
	case 5:
		n = 4
	case 2:
		l, m := binary.Uvarint(b)
		if m <= 0 || l > uint64(len(b)-m) {
			return 0, nil, nil, errWire
		}
		return int(tag >> 3), b[m : m+int(l)], b[m+int(l):], nil
	default:
		return 0, nil, nil, errWire
	}
	if n > len(b) {
		return 0, nil, nil, errWire
	}
	return int(tag >> 3), nil, b[n:], nil
}

// objectMeta returns the ObjectMeta of an object and the bytes after it.
func objectMeta(raw []byte) (meta, rest []byte, err error) {
	if len(raw) == 0 || raw[0] != tagBytes1 {
		return nil, nil, errWire
	}
	_, meta, rest, err = wireField(raw)
	return meta, rest, err
}

// wireLabels reads the labels of a stored protobuf object.
func wireLabels(stored []byte) (labels.Set, error) {
	raw, err := rawOf(stored)
	if err != nil {
		return nil, err
	}
	meta, _, err := objectMeta(raw)
	if err != nil {
		return nil, err
	}
	var set labels.Set
	for len(meta) > 0 {
		num, val, rest, err := wireField(meta)
		if err != nil {
			return nil, err
		}
		if num == tagLabels>>3 {
			var kv [3][]byte
			for len(val) > 0 {
				n, v, after, err := wireField(val)
				if err != nil {
					return nil, err
				}
				if n < len(kv) {
					kv[n] = v
				}
				val = after
			}
			if set == nil {
				set = labels.Set{}
			}
			set[string(kv[1])] = string(kv[2])
		}
		meta = rest
	}
	return set, nil
}

// LabelsOf reads the labels of a stored object.
func LabelsOf(stored []byte) (labels.Set, error) { return itemLabels(stored) }

// itemLabels reads the labels of a stored object in either encoding.
func itemLabels(stored []byte) (labels.Set, error) {
	if !isJSON(stored) {
		return wireLabels(stored)
	}
	text := jsonobject.Find(stored, "metadata", "labels")
	if text == nil {
		return nil, nil
	}
	var set labels.Set
	err := json.Unmarshal(text, &set)
	return set, err
}

// versioned is an object's bytes with its resourceVersion put in: the pieces
// to write one after the other.
type versioned struct {
	head [32]byte // ObjectMeta's tag and new length
	n    int
	meta []byte // ObjectMeta up to where the resourceVersion goes
	rv   [24]byte
	rvn  int
	tail []byte // the rest of ObjectMeta and of the object
	size int
}

// withRevision puts revision rev into the bytes of an object without copying
// them.
func withRevision(raw []byte, rev int64) (versioned, error) {
	var v versioned
	meta, after, err := objectMeta(raw)
	if err != nil {
		return v, err
	}
	at := 0
	for b := meta; len(b) > 0; {
		num, _, rest, err := wireField(b)
		if err != nil {
			return v, err
		}
		if num >= tagRV>>3 {
			break
		}
		at = len(meta) - len(rest)
		b = rest
	}
	begin := len(raw) - len(after) - len(meta) + at
	v.meta, v.tail = meta[:at], raw[begin:]
	// Stored bytes have an empty resourceVersion, which ours replaces.
	skipped := 0
	if b := meta[at:]; len(b) > 1 && b[0] == tagRV && b[1] == 0 {
		skipped = 2
		v.tail = raw[begin+skipped:]
	}
	rv := strconv.AppendInt(v.rv[:2], rev, 10)
	rv[0], rv[1] = tagRV, byte(len(rv)-2)
	v.rvn = len(rv)
	copy(v.rv[:], rv)
	newLen := len(meta) - skipped + v.rvn
	h := binary.AppendUvarint(append(v.head[:0], tagBytes1), uint64(newLen))
	v.n = len(h)
	v.size = v.n + len(v.meta) + v.rvn + len(v.tail)
	return v, nil
}

// pieces returns the bytes, in order.
func (v *versioned) pieces() [][]byte {
	return [][]byte{v.head[:v.n], v.meta, v.rv[:v.rvn], v.tail}
}

func (v *versioned) appendTo(dst []byte) []byte {
	dst = append(dst, v.head[:v.n]...)
	dst = append(dst, v.meta...)
	dst = append(dst, v.rv[:v.rvn]...)
	return append(dst, v.tail...)
}
