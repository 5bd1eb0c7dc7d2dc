package cbor

import (
	"encoding/binary"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// Kinds of values, in the first three bits of their heads.
const (
	byteString = 2
	textString = 3
	array      = 4
	mapping    = 5
)

// ListHead returns the beginning of a list with these fields, up to its n items.
func ListHead(fields map[string]any, n int) ([]byte, error) {
	b := appendHead(slices.Clone(prefix), mapping, len(fields)+1)
	var of []any
	for name, value := range fields {
		of = append(of, name, value)
	}
	for _, v := range append(of, "items") {
		value, err := direct.Marshal(v)
		if err != nil {
			return nil, err
		}
		b = append(b, value...)
	}
	return appendHead(b, array, n), nil
}

// ItemFromJSON is FromJSON for an item of a list.
func ItemFromJSON(doc []byte) ([]byte, error) {
	b, err := FromJSON(doc)
	if err != nil {
		return nil, err
	}
	return b[len(prefix):], nil
}

// appendHead appends the head of a value of a kind that holds n others.
func appendHead(b []byte, kind byte, n int) []byte {
	if n < 24 {
		return append(b, kind<<5|byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, kind<<5|26), uint32(n))
}
