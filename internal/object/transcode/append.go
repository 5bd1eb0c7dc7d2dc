package transcode

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

// errUnusual is an error of bytes that generated code does not write.
var errUnusual = errors.New("unusual protobuf")

// span is where a message's bytes have a field: from its first tag or, if single is set, its one value.
type span struct {
	from, to int32 // of a list or map: all that lies between its first and its last element
	set      bool
}

// writer holds the tables of the messages around the current one, the innermost last.
type writer struct {
	dst   []byte
	spans []span
	pairs []pair
	plan  *Plan
	rev   int64
	known bool // JSON documents among the values are valid
}

// level is where a message is in the object.
type level byte

const (
	within level = iota
	whole        // it is the object
	meta         // it is the object's own metadata, which have the revision
)

// Append appends the JSON of an object to dst: of its protobuf bytes without an envelope, with rev as its resourceVersion.
func (p *Plan) Append(dst, raw []byte, rev int64) ([]byte, error) {
	return p.append(dst, raw, rev, false)
}

// AppendKnown is Append for bytes for which that was no error before.
func (p *Plan) AppendKnown(dst, raw []byte, rev int64) ([]byte, error) {
	return p.append(dst, raw, rev, true)
}

func (p *Plan) append(dst, raw []byte, rev int64, known bool) ([]byte, error) {
	if int64(len(raw)) > math.MaxInt32 {
		return nil, errUnusual
	}
	w := writers.Get().(*writer)
	w.dst, w.plan, w.rev, w.known = dst, p, rev, known
	err := w.object(p.root, raw, whole)
	dst, w.dst, w.plan, w.spans = w.dst, nil, nil, w.spans[:0]
	clear(w.pairs[:cap(w.pairs)])
	w.pairs = w.pairs[:0]
	writers.Put(w)
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// writers keeps the tables, which are some kilobytes, from one object to the next. They hold nothing of an object.
var writers = sync.Pool{New: func() any { return &writer{spans: make([]span, 0, 256)} }}

// object writes a message as an object.
func (w *writer) object(t *apitype.Type, raw []byte, at level) error {
	w.dst = append(w.dst, '{')
	if err := w.fieldsOf(t, raw, at); err != nil {
		return err
	}
	if last := len(w.dst) - 1; w.dst[last] == ',' {
		w.dst = w.dst[:last]
	}
	w.dst = append(w.dst, '}')
	return nil
}

// fieldsOf writes the fields of a message, each with a comma behind it.
func (w *writer) fieldsOf(t *apitype.Type, raw []byte, at level) error {
	base := len(w.spans)
	w.spans = append(w.spans, make([]span, len(t.Fields))...)
	if err := find(t, w.spans[base:], raw); err != nil {
		return err
	}
	for n := range t.Fields {
		f, s := &t.Fields[n], w.spans[base+n]
		if !s.set && f.Optional && at != meta {
			continue
		}
		if err := w.field(f, raw, s, at); err != nil {
			return err
		}
	}
	w.spans = w.spans[:base]
	return nil
}

// find fills in where each field is.
func find(t *apitype.Type, spans []span, raw []byte) error {
	for at := 0; at < len(raw); {
		tag, n := binary.Uvarint(raw[at:])
		if n <= 0 || tag>>3 == 0 {
			return errUnusual
		}
		tagAt := at
		from, to, err := value(raw, at+n, int(tag&7))
		if err != nil {
			return err
		}
		at = to
		if n := t.Numbered(tag >> 3); n >= 0 {
			f, s := t.Fields[n].Type, &spans[n]
			switch {
			case isMany(f):
				if !s.set {
					s.from, s.set = int32(tagAt), true
				}
				s.to = int32(to)
			case int(tag&7) != wireOf(f) || s.set:
				return errUnusual
			default:
				*s = span{int32(from), int32(to), true}
			}
		}
	}
	return nil
}

// value returns where a value is that begins at at. The next field begins where it ends.
func value(raw []byte, at, wire int) (from, to int, err error) {
	from = at
	switch wire {
	case wireVarint:
		_, n := binary.Uvarint(raw[at:])
		if n <= 0 {
			return 0, 0, errUnusual
		}
		to = at + n
	case wireFixed8:
		to = at + 8
	case wireFixed4:
		to = at + 4
	case wireBytes:
		l, n := binary.Uvarint(raw[at:])
		if n <= 0 || l > uint64(len(raw)) {
			return 0, 0, errUnusual
		}
		from = at + n
		to = from + int(l)
	default:
		return 0, 0, errUnusual
	}
	if to > len(raw) {
		return 0, 0, errUnusual
	}
	return from, to, nil
}

// field writes a field with its name and a comma, or leaves it out.
func (w *writer) field(f *apitype.Field, raw []byte, s span, at level) (err error) {
	val := raw[s.from:s.to]
	switch {
	case f.Key == "":
		if f.Inline && f.Number > 0 {
			return w.fieldsOf(f.Type, val, within)
		}
		return nil
	case at != within && w.differs(f, at):
		return nil
	case f.Optional && (!s.set || isZero(f, val)):
		return nil
	}
	w.dst = append(w.dst, f.Key...)
	switch t := f.Type; {
	case !s.set && (isMany(t) || t.Kind == apitype.Pointer || t.Kind == apitype.Bytes):
		w.dst = append(w.dst, "null"...)
	case t.Kind == apitype.List:
		err = w.list(t.Elem.Bare(), val)
	case isMany(t):
		err = w.mapOf(t.Elem, val)
	case at == whole && f.Name == "metadata":
		err = w.object(t, val, meta)
	default:
		err = w.single(t.Bare(), val)
	}
	w.dst = append(w.dst, ',')
	return err
}

// isZero says whether JSON leaves an optional field out that has a value.
func isZero(f *apitype.Field, val []byte) bool {
	switch t := f.Type; {
	case len(val) == 0:
		return f.Zero != nil || t.Kind == apitype.String || t.Kind == apitype.Bytes
	case t.Kind == apitype.Bool:
		return varint(val) == 0
	case t.Kind == apitype.Int, t.Kind == apitype.Uint:
		return varint(val) == 0 || t.Bits == 32 && uint32(varint(val)) == 0
	}
	return false
}

// varint returns a value that find has checked; that of no bytes is 0.
func varint(val []byte) uint64 {
	v, _ := binary.Uvarint(val)
	return v
}

// differs says that a field is not the one that the bytes have, and writes it if there is one.
func (w *writer) differs(f *apitype.Field, at level) bool {
	if at == meta && f.Name == "resourceVersion" {
		w.dst = append(w.dst, f.Key...)
		w.dst = append(strconv.AppendInt(append(w.dst, '"'), w.rev, 10), `",`...)
		return true
	}
	return at == whole && w.plan.onlyMetadata && f.Name != "metadata" || at == meta && w.plan.dropManaged && f.Name == "managedFields"
}

// list writes the elements that lie in raw, among other fields.
func (w *writer) list(elem *apitype.Type, raw []byte) error {
	number, _ := binary.Uvarint(raw)
	wire := wireOf(elem)
	w.dst = append(w.dst, '[')
	for at := 0; at < len(raw); {
		tag, n := binary.Uvarint(raw[at:])
		from, to, err := value(raw, at+n, int(tag&7))
		if err != nil {
			return err
		}
		if tag>>3 == number>>3 {
			if int(tag&7) != wire {
				return errUnusual // packed
			}
			if err := w.single(elem, raw[from:to]); err != nil {
				return err
			}
			w.dst = append(w.dst, ',')
		}
		at = to
	}
	w.dst[len(w.dst)-1] = ']'
	return nil
}

// pair is an entry of a map.
type pair struct{ key, value []byte }

// mapOf writes the entries that lie in raw, among other fields, sorted by their keys.
func (w *writer) mapOf(elem *apitype.Type, raw []byte) error {
	base := len(w.pairs)
	if err := w.entries(raw, wireOf(elem)); err != nil {
		return err
	}
	byKey := func(a, b pair) int { return slices.Compare(a.key, b.key) }
	if !slices.IsSortedFunc(w.pairs[base:], byKey) {
		slices.SortStableFunc(w.pairs[base:], byKey)
	}
	w.dst = append(w.dst, '{')
	end := len(w.pairs)
	for n := base; n < end; n++ {
		p := w.pairs[n]
		if n+1 < end && string(p.key) == string(w.pairs[n+1].key) {
			continue // the last of the same key counts
		}
		w.dst = append(jsonobject.AppendString(w.dst, p.key), ':')
		if err := w.single(elem, p.value); err != nil {
			return err
		}
		w.dst = append(w.dst, ',')
	}
	w.pairs = w.pairs[:base]
	w.dst[len(w.dst)-1] = '}'
	return nil
}

func (w *writer) entries(raw []byte, wire int) error {
	number, _ := binary.Uvarint(raw)
	for at := 0; at < len(raw); {
		tag, n := binary.Uvarint(raw[at:])
		from, to, err := value(raw, at+n, int(tag&7))
		if err != nil {
			return err
		}
		if at = to; tag>>3 != number>>3 {
			continue
		}
		if tag&7 != wireBytes {
			return errUnusual
		}
		p, err := entry(raw[from:to], wire)
		if err != nil {
			return err
		}
		w.pairs = append(w.pairs, p)
	}
	return nil
}

// entry reads a map entry: field 1 is the key, 2 the value.
func entry(raw []byte, wire int) (p pair, err error) {
	for at := 0; at < len(raw); {
		tag, n := binary.Uvarint(raw[at:])
		if n <= 0 {
			return p, errUnusual
		}
		from, to, err := value(raw, at+n, int(tag&7))
		if err != nil {
			return p, err
		}
		switch tag {
		case 1<<3 | wireBytes:
			p.key = raw[from:to]
		case uint64(2<<3 | wire):
			p.value = raw[from:to]
		default:
			return p, errUnusual
		}
		at = to
	}
	return p, nil
}

// single writes one value.
func (w *writer) single(t *apitype.Type, val []byte) (err error) {
	switch t.Kind {
	case apitype.String:
		w.dst = jsonobject.AppendString(w.dst, val)
	case apitype.Bytes:
		w.dst = append(base64.StdEncoding.AppendEncode(append(w.dst, '"'), val), '"')
	case apitype.Bool:
		w.dst = strconv.AppendBool(w.dst, varint(val) != 0)
	case apitype.Int:
		n := int64(varint(val))
		if t.Bits == 32 {
			n = int64(int32(n))
		}
		w.dst = strconv.AppendInt(w.dst, n, 10)
	case apitype.Uint:
		n := varint(val)
		if t.Bits == 32 {
			n = uint64(uint32(n))
		}
		w.dst = strconv.AppendUint(w.dst, n, 10)
	case apitype.Struct:
		return w.object(t, val, within)
	case apitype.Time:
		w.dst, err = appendTime(w.dst, val)
	case apitype.MicroTime:
		w.dst, err = appendMicroTime(w.dst, val)
	case apitype.Duration:
		w.dst, err = appendDuration(w.dst, val)
	case apitype.Quantity:
		w.dst, err = appendQuantity(w.dst, val)
	case apitype.IntOrString:
		w.dst, err = appendIntOrString(w.dst, val)
	case apitype.RawExtension, apitype.FieldsV1:
		w.dst, err = w.raw(val, t.Kind == apitype.FieldsV1)
	default:
		err = fmt.Errorf("%w: %s", errUnusual, t.Go)
	}
	return err
}
