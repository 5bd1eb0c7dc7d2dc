package aggregator

import (
	"errors"
	"fmt"
)

// How much of an extension server's documents is decoded. Decoding takes up to 2 kB of memory for each value, so that the
// number of bytes alone bounds little. All built-in kinds together have 2 MiB and 55,000 values in OpenAPI v2.
const (
	// maxValues bounds the values of one document or part, maxDepth how deep they may be nested.
	maxValues, maxDepth = 100_000, 100
)

var errTooMany = errors.New("the document has too many values, or is nested too deeply")

// weigh returns upper bounds of the number of values in JSON, and of the depth of their nesting, without decoding it.
func weigh(data []byte) (values, depth int) {
	values, now := 1, 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case ',':
			values++
		case '{', '[':
			values++
			now++
			depth = max(depth, now)
		case '}', ']':
			now--
		}
	}
	return values, depth
}

// bounded returns an error for a document that must not be decoded.
func bounded(data []byte) error {
	left := room{bytes: len(data), values: maxValues}
	return left.take(data)
}

// room is what may still be taken of a document.
type room struct{ bytes, values int }

// take takes a piece, or returns an error if there is no room for it.
func (r *room) take(piece []byte) error {
	if len(piece) > r.bytes {
		return errTooLong
	}
	values, depth := weigh(piece)
	if values > r.values || depth > maxDepth {
		return fmt.Errorf("%w: more than %d, or deeper than %d", errTooMany, maxValues, maxDepth)
	}
	r.bytes -= len(piece)
	r.values -= values
	return nil
}
