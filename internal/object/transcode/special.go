package transcode

import (
	"encoding/binary"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

// This file writes the types that have a JSON form of their own.

// numbers reads a message of numbers: those of its fields 1, 2, ...
func numbers(val []byte, into ...*uint64) error {
	for at := 0; at < len(val); {
		tag, n := binary.Uvarint(val[at:])
		if n <= 0 || tag&7 != wireVarint || tag>>3 == 0 || tag>>3 > uint64(len(into)) {
			return errUnusual
		}
		at += n
		v, n := binary.Uvarint(val[at:])
		if n <= 0 {
			return errUnusual
		}
		*into[tag>>3-1] = v
		at += n
	}
	return nil
}

// appendTime writes a Timestamp message; no bytes are no time.
func appendTime(dst, val []byte) ([]byte, error) {
	var seconds, nanos uint64
	if err := numbers(val, &seconds, &nanos); err != nil {
		return nil, err
	}
	t := time.Unix(int64(seconds), 0).UTC()
	if len(val) == 0 || t.IsZero() {
		return append(dst, "null"...), nil
	}
	return append(t.AppendFormat(append(dst, '"'), time.RFC3339), '"'), nil
}

func appendMicroTime(dst, val []byte) ([]byte, error) {
	var seconds, nanos uint64
	if err := numbers(val, &seconds, &nanos); err != nil {
		return nil, err
	}
	t := time.Unix(int64(seconds), int64(time.Duration(int32(nanos)).Truncate(time.Microsecond))).UTC()
	if len(val) == 0 || t.IsZero() {
		return append(dst, "null"...), nil
	}
	return append(t.AppendFormat(append(dst, '"'), metav1.RFC3339Micro), '"'), nil
}

func appendDuration(dst, val []byte) ([]byte, error) {
	var d uint64
	if err := numbers(val, &d); err != nil {
		return nil, err
	}
	return jsonobject.AppendString(dst, time.Duration(d).String()), nil
}

// text returns the bytes of field number of a message that has only that field.
func text(val []byte, number uint64) ([]byte, error) {
	tag, n := binary.Uvarint(val)
	if n <= 0 || tag != number<<3|wireBytes {
		return nil, errUnusual
	}
	from, to, err := value(val, n, wireBytes)
	if err != nil || to != len(val) {
		return nil, errUnusual
	}
	return val[from:to], nil
}

// appendQuantity writes a quantity in its canonical form, in which it usually is already.
func appendQuantity(dst, val []byte) ([]byte, error) {
	s, err := text(val, 1)
	if err != nil {
		return nil, err
	}
	dst = append(dst, '"')
	if canonicalQuantity(s) {
		return append(append(dst, s...), '"'), nil
	}
	q, err := resource.ParseQuantity(string(s))
	if err != nil {
		return nil, err
	}
	number, suffix := q.CanonicalizeBytes(nil)
	return append(append(append(dst, number...), suffix...), '"'), nil
}

// canonicalQuantity recognizes the most frequent canonical forms: small positive integers with a usual suffix.
func canonicalQuantity(s []byte) bool {
	n, digits := 0, 0
	for digits < len(s) && digits < 9 && s[digits] >= '0' && s[digits] <= '9' {
		n = 10*n + int(s[digits]-'0')
		digits++
	}
	if digits == 0 || s[0] == '0' {
		return false
	}
	switch string(s[digits:]) {
	case "", "m", "k", "M", "G":
		return n%1000 != 0
	case "Ki", "Mi", "Gi":
		return n%1024 != 0
	}
	return false
}

// appendIntOrString writes a message of the type (1), the integer (2) and the string (3).
func appendIntOrString(dst, val []byte) ([]byte, error) {
	var kind, number uint64
	var s []byte
	for at := 0; at < len(val); {
		tag, n := binary.Uvarint(val[at:])
		if n <= 0 {
			return nil, errUnusual
		}
		from, to, err := value(val, at+n, int(tag&7))
		if err != nil {
			return nil, err
		}
		switch tag {
		case 1<<3 | wireVarint:
			kind = varint(val[from:to])
		case 2<<3 | wireVarint:
			number = varint(val[from:to])
		case 3<<3 | wireBytes:
			s = val[from:to]
		default:
			return nil, errUnusual
		}
		at = to
	}
	switch kind {
	case 0:
		return strconv.AppendInt(dst, int64(int32(number)), 10), nil
	case 1:
		return jsonobject.AppendString(dst, s), nil
	}
	return nil, errUnusual
}

// raw writes a JSON document that is the field 1 of a message.
func (w *writer) raw(val []byte, emptyIsNull bool) ([]byte, error) {
	dst := w.dst
	if len(val) == 0 {
		return append(dst, "null"...), nil
	}
	doc, err := text(val, 1)
	if err != nil {
		return nil, err
	}
	if len(doc) == 0 && emptyIsNull {
		return append(dst, "null"...), nil
	}
	if len(doc) == 0 || doc[0] != '{' {
		return nil, errUnusual
	}
	dst, ok := jsonobject.AppendRaw(dst, doc, w.known)
	if !ok {
		return nil, errUnusual
	}
	return dst, nil
}
