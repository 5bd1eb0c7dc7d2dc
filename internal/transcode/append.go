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

	"github.com/kanzen-io/kanzen/internal/jsonobject"
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
	rev   int64
	known bool // JSON documents among the values are valid
}

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
	w.dst, w.rev, w.known = dst, rev, known
	err := w.object(p, raw)
	dst, w.dst, w.spans = w.dst, nil, w.spans[:0]
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
func (w *writer) object(p *Plan, raw []byte) error {
	w.dst = append(w.dst, '{')
	if err := w.fieldsOf(p, raw); err != nil {
		return err
	}
	if last := len(w.dst) - 1; w.dst[last] == ',' {
		w.dst = w.dst[:last]
	}
	w.dst = append(w.dst, '}')
	return nil
}

// fieldsOf writes the fields of a message, each with a comma behind it.
func (w *writer) fieldsOf(p *Plan, raw []byte) error {
	base := len(w.spans)
	w.spans = append(w.spans, make([]span, len(p.fields))...)
	if err := p.find(w.spans[base:], raw); err != nil {
		return err
	}
	for n := range p.fields {
		f, s := &p.fields[n], w.spans[base+n]
		if !s.set && f.optional() {
			continue
		}
		if err := w.field(f, raw, s); err != nil {
			return err
		}
	}
	w.spans = w.spans[:base]
	return nil
}

// find fills in where each field is.
func (p *Plan) find(spans []span, raw []byte) error {
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
		if number := tag >> 3; number < uint64(len(p.index)) && p.index[number] >= 0 {
			f, s := &p.fields[p.index[number]], &spans[p.index[number]]
			switch {
			case f.list || f.form == formMap:
				if !s.set {
					s.from, s.set = int32(tagAt), true
				}
				s.to = int32(to)
			case int(tag&7) != f.form.wire() || s.set:
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
func (w *writer) field(f *field, raw []byte, s span) error {
	if f.dropped {
		return nil
	}
	if f.form == formInline {
		return w.fieldsOf(f.message, raw[s.from:s.to])
	}
	if f.revision {
		w.dst = append(w.dst, f.name...)
		w.dst = append(strconv.AppendInt(append(w.dst, '"'), w.rev, 10), `",`...)
		return nil
	}
	was := len(w.dst)
	w.dst = append(w.dst, f.name...)
	wrote, err := w.valueOf(f, raw, s)
	if err != nil {
		return err
	}
	if !wrote {
		w.dst = w.dst[:was]
		return nil
	}
	w.dst = append(w.dst, ',')
	return nil
}

// valueOf writes a field's value, unless the field is left out.
func (w *writer) valueOf(f *field, raw []byte, s span) (wrote bool, err error) {
	switch {
	case f.list:
		if !s.set {
			return w.null(f), nil
		}
		return true, w.list(f, raw[s.from:s.to])
	case f.form == formMap:
		if !s.set {
			return w.null(f), nil
		}
		return true, w.mapOf(f.value, raw[s.from:s.to])
	case f.pointer && !s.set:
		return w.null(f), nil
	case f.form == formBytes && !s.set:
		return w.null(f), nil
	}
	val := raw[s.from:s.to]
	if f.zero && len(val) == 0 || f.omit && !f.pointer && isZero(f.form, val) {
		return false, nil
	}
	return true, w.single(f, val)
}

// null writes null, unless the field is left out if it is empty.
func (w *writer) null(f *field) bool {
	if f.omit {
		return false
	}
	w.dst = append(w.dst, "null"...)
	return true
}

// isZero says whether omitempty leaves a value out that is no pointer.
func isZero(f form, val []byte) bool {
	switch f {
	case formString, formBytes:
		return len(val) == 0
	case formBool:
		return varint(val) == 0
	case formInt32, formUint32:
		return uint32(varint(val)) == 0
	case formInt64, formUint64:
		return varint(val) == 0
	}
	return false
}

// varint returns a value that find has checked; that of no bytes is 0.
func varint(val []byte) uint64 {
	v, _ := binary.Uvarint(val)
	return v
}

// list writes the elements that lie in raw, among other fields.
func (w *writer) list(f *field, raw []byte) error {
	number, _ := binary.Uvarint(raw)
	wire := f.form.wire()
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
			if err := w.single(f, raw[from:to]); err != nil {
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
func (w *writer) mapOf(value *field, raw []byte) error {
	base := len(w.pairs)
	if err := w.entries(raw, value.form.wire()); err != nil {
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
		if err := w.single(value, p.value); err != nil {
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
func (w *writer) single(f *field, val []byte) (err error) {
	switch f.form {
	case formString:
		w.dst = jsonobject.AppendString(w.dst, val)
	case formBytes:
		w.dst = append(base64.StdEncoding.AppendEncode(append(w.dst, '"'), val), '"')
	case formBool:
		w.dst = strconv.AppendBool(w.dst, varint(val) != 0)
	case formInt32:
		w.dst = strconv.AppendInt(w.dst, int64(int32(varint(val))), 10)
	case formInt64:
		w.dst = strconv.AppendInt(w.dst, int64(varint(val)), 10)
	case formUint32:
		w.dst = strconv.AppendUint(w.dst, uint64(uint32(varint(val))), 10)
	case formUint64:
		w.dst = strconv.AppendUint(w.dst, varint(val), 10)
	case formMessage:
		return w.object(f.message, val)
	case formTime:
		w.dst, err = appendTime(w.dst, val)
	case formMicroTime:
		w.dst, err = appendMicroTime(w.dst, val)
	case formDuration:
		w.dst, err = appendDuration(w.dst, val)
	case formQuantity:
		w.dst, err = appendQuantity(w.dst, val)
	case formIntOrString:
		w.dst, err = appendIntOrString(w.dst, val)
	case formRaw, formFields:
		w.dst, err = w.raw(val, f.form == formFields)
	default:
		err = fmt.Errorf("%w: form %d", errUnusual, f.form)
	}
	return err
}
