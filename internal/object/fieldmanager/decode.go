package fieldmanager

import (
	"bytes"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// decoded is what decodeSet has found in a FieldsV1.
type decoded struct {
	fields set
	// same says that encoding the set gives the same bytes again.
	same bool
	// odd says that the set has no exact form here.
	odd bool
}

// decodeSet reads the JSON of a FieldsV1. The library reads what is not exactly as this package and the library write it.
func (w *walker) decodeSet(raw []byte) (d decoded, err error) {
	if len(raw) == 0 {
		return decodeForeign(raw)
	}
	r := reader{w: w, rest: string(raw), quote: `\"`}
	fields, self := r.object()
	if r.failed || r.rest != "" || self {
		return decodeForeign(raw)
	}
	return decoded{fields: fields, same: true}, nil
}

func decodeForeign(raw []byte) (d decoded, err error) {
	var s fieldpath.Set
	if err := s.FromJSON(bytes.NewReader(raw)); err != nil {
		return d, err
	}
	fields, exact := setOf(&s)
	return decoded{fields: fields, odd: !exact}, nil
}

// reader reads the JSON of a set in the one form that sets are written in.
type reader struct {
	w      *walker
	rest   string
	quote  string // of texts in keys
	depth  int
	failed bool
}

// maxDepth is up to which depth this package reads a set. It is far below the bound of the library.
const maxDepth = 1000

// next takes a prefix.
func (r *reader) next(prefix string) bool {
	rest, ok := strings.CutPrefix(r.rest, prefix)
	r.rest = rest
	return ok
}

func (r *reader) need(prefix string) {
	if !r.next(prefix) {
		r.failed = true
	}
}

// object reads a set, and whether what it belongs to is a member itself.
func (r *reader) object() (s set, self bool) {
	r.need("{")
	if r.next("}") {
		return nil, true
	}
	if r.depth++; r.depth > maxDepth {
		r.failed = true
	}
	mark := len(r.w.stack[decoding])
	if r.next(`".":{}`) {
		self = true
		r.need(",")
	}
	for !r.failed {
		e := r.element()
		r.need(":")
		if r.failed {
			break
		}
		below, member := r.object()
		if i := len(r.w.stack[decoding]); i > mark && r.w.stack[decoding][i-1].elem.compare(e) >= 0 {
			r.failed = true
		}
		r.w.stack[decoding] = append(r.w.stack[decoding], node{e, member, below})
		if !r.next(",") {
			r.need("}")
			break
		}
	}
	r.depth--
	return r.w.pop(decoding, mark), self
}

func (r *reader) element() (e element) {
	switch {
	case r.next(`"f:`):
		e.name = r.text(`"`)
	case r.next(`"k:{`):
		e.kind, e.key = byKey, r.key()
		r.need(`"`)
	case r.next(`"v:`):
		e.kind, e.key = byValue, r.w.keys(keyField{value: r.scalar()})
		r.need(`"`)
	default:
		r.failed = true
	}
	return e
}

// text reads plain text up to its end.
func (r *reader) text(end string) string {
	n := 0
	for n < len(r.rest) && isPlain(r.rest[n]) {
		n++
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	r.need(end)
	return s
}

func (r *reader) key() []keyField {
	var fields [8]keyField
	n := 0
	for !r.failed {
		if n == len(fields) {
			r.failed = true
			break
		}
		r.need(r.quote)
		fields[n].name = r.text(r.quote)
		r.need(":")
		fields[n].value = r.scalar()
		if n > 0 && fields[n-1].name >= fields[n].name {
			r.failed = true
		}
		n++
		if !r.next(",") {
			r.need("}")
			break
		}
	}
	return r.w.keys(fields[:n]...)
}

func (r *reader) scalar() scalar {
	switch {
	case r.next(r.quote):
		return scalar{kind: isText, text: r.text(r.quote)}
	case r.next("true"):
		return truth(true)
	case r.next("false"):
		return truth(false)
	}
	return r.number()
}

// number reads an integer as it is written.
func (r *reader) number() scalar {
	negative := r.next("-")
	n, digits := int64(0), 0
	for digits < len(r.rest) && digits < 16 && '0' <= r.rest[digits] && r.rest[digits] <= '9' {
		n = n*10 + int64(r.rest[digits]-'0')
		digits++
	}
	if digits == 0 || r.rest[0] == '0' && (digits > 1 || negative) {
		r.failed = true
		return scalar{}
	}
	r.rest = r.rest[digits:]
	if negative {
		n = -n
	}
	s, ok := exact(n)
	r.failed = r.failed || !ok
	return s
}
