package h2

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// buffered is how much of an answer waits until the handler is done or flushes. An answer that fits is sent in one write.
const buffered = 16 << 10

var errHandlerDone = errors.New("http2: the handler has returned")

// held is what an answer needs until it is sent.
type held struct {
	fields []field
	body   []byte
}

var helds = sync.Pool{New: func() any { return new(held) }}

// response is the http.ResponseWriter of a stream. The handler's goroutine uses it, but for deadlines, which others may set.
type response struct {
	st       *stream
	head     bool // the answer has no body
	header   http.Header
	held     *held // nil: nothing waits
	status   int   // 0: the header is not written
	sent     bool  // the header was sent
	over     bool  // the handler has returned
	declared int64 // Content-Length; -1: it does not say
	wrote    int64
	trailers []string
}

// Header is part of http.ResponseWriter.
func (r *response) Header() http.Header {
	if r.header == nil {
		r.header = make(http.Header, 8)
	}
	return r.header
}

func (r *response) hold() *held {
	if r.held == nil {
		r.held = helds.Get().(*held)
	}
	return r.held
}

// release gives back what waited.
func (r *response) release() {
	r.over = true
	r.unhold()
}

func (r *response) unhold() {
	h := r.held
	if h == nil {
		return
	}
	r.held = nil
	clear(h.fields) // it must not keep the strings alive
	h.fields, h.body = h.fields[:0], h.body[:0]
	if cap(h.body) <= 2*buffered {
		helds.Put(h)
	}
}

// WriteHeader is part of http.ResponseWriter. Later changes of the header have no effect.
func (r *response) WriteHeader(code int) {
	if r.status != 0 || r.over {
		return
	}
	if code < 100 || code > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", code))
	}
	if code < 200 {
		r.inform(code)
		return
	}
	r.status = code
	h := r.hold()
	h.fields = appendFields(h.fields, r.header, func(key string) bool {
		return key == "Connection" || key == "Content-Length" || strings.HasPrefix(key, http.TrailerPrefix)
	})
	if length := r.header.Get("Content-Length"); length != "" {
		if n, err := strconv.ParseUint(length, 10, 63); err == nil {
			r.declared = int64(n)
		}
	}
	for _, list := range r.header["Trailer"] {
		for key := range strings.SplitSeq(list, ",") {
			r.declare(strings.TrimSpace(key))
		}
	}
	if r.header.Get("Connection") == "close" {
		r.st.c.goAway()
	}
}

// inform sends a header before that of the answer.
func (r *response) inform(code int) {
	fields := appendFields(nil, r.header, func(key string) bool { return key == "Content-Length" || key == "Transfer-Encoding" })
	c := r.st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !r.st.gone {
		c.headerFrames(r.st.id, fields, code, false)
		c.write()
	}
}

func (r *response) declare(key string) {
	key = http.CanonicalHeaderKey(key)
	if httpguts.ValidTrailerHeader(key) && !slices.Contains(r.trailers, key) {
		r.trailers = append(r.trailers, key)
	}
}

// hasBody says whether an answer of this status can have one.
func hasBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// Write is part of http.ResponseWriter.
func (r *response) Write(p []byte) (int, error) { return write(r, p) }

// WriteString is part of io.StringWriter.
func (r *response) WriteString(p string) (int, error) { return write(r, p) }

func write[T []byte | string](r *response, p T) (int, error) {
	if r.over {
		return 0, errHandlerDone
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if !hasBody(r.status) {
		return 0, http.ErrBodyNotAllowed
	}
	r.wrote += int64(len(p))
	if r.declared >= 0 && r.wrote > r.declared {
		return 0, http.ErrContentLength
	}
	h := r.hold()
	if len(h.body)+len(p) <= buffered {
		h.body = append(h.body, p...)
		return len(p), nil
	}
	held := 0
	if !r.sent && len(h.body) < sniffed { // the first bytes say what they are
		held = min(len(p), sniffed-len(h.body))
		h.body = append(h.body, p[:held]...)
	}
	if err := r.push([]byte(p[held:]), false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// sniffed is how many bytes http.DetectContentType looks at.
const sniffed = 512

// Flush is part of http.Flusher.
func (r *response) Flush() { _ = r.FlushError() }

// FlushError is Flush for http.ResponseController.
func (r *response) FlushError() error {
	if r.over {
		return errHandlerDone
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	err := r.push(nil, false)
	r.unhold()
	return err
}

// finish sends what is left when the handler has returned.
func (r *response) finish() {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	r.over = true
	for key, values := range r.header {
		if name, ok := strings.CutPrefix(key, http.TrailerPrefix); ok {
			r.declare(name)
			r.header[http.CanonicalHeaderKey(name)] = values
		}
	}
	_ = r.push(nil, true) // the client is gone, or the stream was reset
	r.release()
}

// push sends the header if that has not been done, what is held of the body, and more of it. last: the answer ends with that.
func (r *response) push(more []byte, last bool) error {
	c, h := r.st.c, r.hold()
	var trailers []field
	if last {
		trailers = r.trailing()
	}
	last = last && trailers == nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.head && r.sent {
		return nil // that was all
	}
	if r.st.gone {
		return r.st.cause
	}
	if !r.sent {
		r.sent = true
		r.complete(h)
		bare := r.head || last && len(h.body) == 0
		c.headerFrames(r.st.id, h.fields, r.status, bare)
		if bare {
			c.answered(r.st)
			c.write()
			return nil
		}
	}
	err := c.parts(r.st, h.body, more, last)
	h.body = h.body[:0]
	if err == nil && trailers != nil && !r.st.gone {
		c.headerFrames(r.st.id, trailers, 0, true)
		c.answered(r.st)
	}
	if r.over {
		c.write()
	} else {
		c.writeAll()
	}
	return err
}

// parts queues two parts of a body. c.mu is held.
func (c *conn) parts(st *stream, first, second []byte, last bool) error {
	if len(second) == 0 {
		return c.data(st, first, last)
	}
	if err := c.data(st, first, false); err != nil {
		return err
	}
	return c.data(st, second, last)
}

// complete adds the fields that the server adds.
func (r *response) complete(h *held) {
	var kind, encoded, dated bool
	for _, f := range h.fields {
		switch f.name {
		case "content-type":
			kind = true
		case "content-encoding":
			encoded = encoded || f.value != ""
		case "date":
			dated = true
		}
	}
	length := r.declared
	if length < 0 && r.over && hasBody(r.status) && (r.wrote > 0 || !r.head) {
		length = r.wrote // all of it is here
	}
	if !kind && !encoded && hasBody(r.status) && len(h.body) > 0 {
		h.fields = append(h.fields, field{"content-type", http.DetectContentType(h.body)})
	}
	if length >= 0 {
		h.fields = append(h.fields, field{"content-length", strconv.FormatInt(length, 10)})
	}
	if !dated {
		h.fields = append(h.fields, field{"date", today()})
	}
}

// trailing returns the trailers of the answer; nil: it has none.
func (r *response) trailing() []field {
	if len(r.trailers) == 0 {
		return nil
	}
	slices.Sort(r.trailers)
	values := http.Header{}
	for _, key := range r.trailers {
		if v, ok := r.header[key]; ok {
			values[key] = v
		}
	}
	if len(values) == 0 {
		return nil
	}
	return appendFields([]field{}, values, func(string) bool { return false })
}

// SetReadDeadline is for http.ResponseController.
func (r *response) SetReadDeadline(at time.Time) error {
	if b := r.st.body; b != nil {
		r.st.deadline(&r.st.reading, at, b.expire)
	}
	return nil
}

// SetWriteDeadline is for http.ResponseController.
func (r *response) SetWriteDeadline(at time.Time) error {
	r.st.deadline(&r.st.writing, at, r.st.expire)
	return nil
}

// EnableFullDuplex is for http.ResponseController: requests and answers are independent in any case.
func (r *response) EnableFullDuplex() error { return nil }

// deadline sets a deadline of the stream. One that has passed takes effect before it returns.
func (st *stream) deadline(timer **time.Timer, at time.Time, expire func()) {
	left := time.Until(at)
	if !at.IsZero() && left <= 0 {
		expire()
		return
	}
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	if *timer != nil {
		(*timer).Stop()
	}
	switch {
	case st.gone || at.IsZero():
		*timer = nil
	case *timer == nil:
		*timer = time.AfterFunc(left, expire)
	default:
		(*timer).Reset(left)
	}
}
