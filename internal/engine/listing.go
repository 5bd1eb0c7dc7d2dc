package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/kanzen-io/kanzen/internal/request"
)

// itemFunc makes the n-th item of a list, in two pieces.
type itemFunc func(n int) (head, rest []byte, err error)

// listing is a list that is written item by item. Every item is encoded before
// the first byte is sent, so that a failure is an error and not half a list;
// unless it is known that none can fail.
// Only some of the encodings are kept; the others are made again when they are
// written, or taken from the cache: expensive encodings are cached with the
// item.
type listing struct {
	// head begins the list; size is the total size of its items.
	head      func(size int) []byte
	sep, tail []byte
	n         int // of items
	// pass returns a func that makes the items in order, from any item on.
	pass func() itemFunc
	// same says that each pass makes the same bytes.
	same bool
	// reuses says that an itemFunc overwrites, when it is called again, what it has returned.
	reuses bool
	// sound says that no item can fail, and there need be no first pass. About is then the size, which is not known.
	sound bool
	about int
}

// heldBytes is how much of a list is kept from its first pass for the second.
const heldBytes = 2 << 20

// heldItems is for how many of them there is room at first.
const heldItems = 4096

// heldItem is an encoded item that is kept.
type heldItem struct{ head, rest []byte }

// measure is the first pass: it encodes every item, and returns the kept ones
// and the total size.
func (l *listing) measure(ctx context.Context) (held []heldItem, size int, err error) {
	item := l.pass()
	held = make([]heldItem, 0, min(l.n, heldItems))
	for n := range l.n {
		if err := ended(ctx, n); err != nil {
			return nil, 0, err
		}
		head, rest, err := item(n)
		if err != nil {
			return nil, 0, err
		}
		if size += len(head) + len(rest); size > heldBytes {
			continue
		}
		if l.reuses {
			head, rest = bytes.Clone(head), bytes.Clone(rest)
		}
		held = append(held, heldItem{head, rest})
	}
	return held, size, nil
}

// writeListing answers with a list.
func (c *call) writeListing(out output, l *listing) error {
	ctx := c.req.Context()
	began := request.Begin(ctx)
	var held []heldItem
	var err error
	size, exact := l.about, false
	if !l.sound {
		if held, size, err = l.measure(ctx); err != nil {
			return err
		}
		exact = l.same || len(held) == l.n
	}
	request.End(ctx, request.LayerSerialize, began)
	began = request.Begin(ctx)
	defer request.End(ctx, request.LayerWrite, began)
	head := l.head(size)
	s := c.stream(out.contentType(false), len(head)+size+max(l.n-1, 0)*len(l.sep)+len(l.tail), exact)
	defer s.end()
	s.write(head)
	item := l.pass()
	for n := range l.n {
		if !s.goesOn(ctx, n) {
			return nil
		}
		if n > 0 {
			s.write(l.sep)
		}
		var i heldItem
		if n < len(held) {
			i = held[n]
		} else if i.head, i.rest, err = item(n); err != nil {
			s.abort()
		}
		s.write(i.head)
		s.write(i.rest)
	}
	s.write(l.tail)
	s.close()
	return nil
}

var (
	comma    = []byte{','}
	listTail = []byte("]}\n")
)

// jsonListing is a list in JSON of n items, after a head that ends with the
// bracket before them.
func jsonListing(out output, head []byte, n int, pass func() itemFunc) *listing {
	l := &listing{sep: comma, tail: listTail, n: n, pass: pass, same: true}
	if out.pretty {
		l.indent(&head)
	}
	l.head = func(int) []byte { return head }
	return l
}

// indent makes the list human-readable.
func (l *listing) indent(head *[]byte) {
	var b bytes.Buffer
	if json.Indent(&b, append(*head, "]}"...), "", "  ") != nil {
		return
	}
	*head, l.tail = bytes.TrimSuffix(b.Bytes(), []byte("]\n}")), []byte("]\n}\n")
	if l.n == 0 {
		return
	}
	l.tail = []byte("\n  ]\n}\n")
	pass := l.pass
	l.pass = func() itemFunc {
		item := pass()
		return func(n int) ([]byte, []byte, error) {
			head, rest, err := item(n)
			if err != nil {
				return nil, nil, err
			}
			var b bytes.Buffer
			b.WriteString("\n    ")
			if head != nil {
				rest = append(bytes.Clone(head), rest...)
			}
			err = json.Indent(&b, rest, "    ", "  ")
			return nil, b.Bytes(), err
		}
	}
}

// stream is a response body that is written in many pieces.
type stream struct {
	gatherer
	z *gzipWriter
}

// stream begins a 200 answer, of which end is to be called, of size bytes (or about that, if it is not
// exact), compressed if it is worth it.
func (c *call) stream(contentType string, size int, exact bool) *stream {
	h := c.w.Header()
	h.Set("Content-Type", contentType)
	s := &stream{gatherer: gatherer{w: c.w}}
	if size >= gzipFrom && acceptsGzip(c.req) {
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
		z := newGzip(c.w)
		s.w, s.z = z, &z
	} else if exact {
		h.Set("Content-Length", strconv.Itoa(size))
	}
	c.w.WriteHeader(http.StatusOK)
	if size >= aheadFrom {
		s.ahead = newAhead(s.w)
	}
	return s
}

// goesOn says whether to write the n-th item. It aborts the answer if its
// deadline has passed.
func (s *stream) goesOn(ctx context.Context, n int) bool {
	err := ended(ctx, n)
	if err == nil && s.err == nil {
		return true
	}
	if errors.Is(err, context.DeadlineExceeded) {
		s.abort()
	}
	s.drop()
	return false
}

func (s *stream) close() {
	s.flush()
	s.end()
	if s.z != nil {
		s.z.close()
	}
}

// abort breaks off an answer that has begun, so that the client does not take
// it for complete.
func (s *stream) abort() {
	s.drop()
	panic(http.ErrAbortHandler)
}

// drop lets the stream write nothing more.
func (s *stream) drop() {
	s.err = http.ErrAbortHandler
	s.flush()
	s.end()
	s.z = nil
}
