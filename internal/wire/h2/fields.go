package h2

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// common are the names that most requests and answers have, by which they need not be converted each time.
var common = []string{
	"Accept", "Accept-Encoding", "Audit-Id", "Authorization", "Cache-Control", "Content-Encoding", "Content-Length", "Content-Type", "Cookie",
	"Date", "Etag", "Host", "If-None-Match", "Kubectl-Command", "Kubectl-Session", "Last-Modified", "Location", "Retry-After", "Server", "Trailer",
	"Traceparent", "User-Agent", "Vary", "Warning", "X-Content-Type-Options", "X-Forwarded-For", "X-Kubernetes-Pf-Flowschema-Uid",
	"X-Kubernetes-Pf-Prioritylevel-Uid",
}

var lowered, canonicals = func() (map[string]string, map[string]string) {
	lower, upper := map[string]string{}, map[string]string{}
	for _, name := range common {
		lower[name] = strings.ToLower(name)
		upper[lower[name]] = name
	}
	return lower, upper
}()

// canonical returns a name as http.Header has it.
func canonical(name string) string {
	if c, ok := canonicals[name]; ok {
		return c
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

// lower returns a name as HTTP/2 has it; "" if it cannot be sent.
func lower(name string) string {
	if l, ok := lowered[name]; ok {
		return l
	}
	if !httpguts.ValidHeaderFieldName(name) {
		return ""
	}
	return strings.ToLower(name)
}

// volatile are fields that hardly ever have the same value twice. If they were put into the tables of both sides, they would push out the
// others.
var volatile = map[string]bool{"audit-id": true, "content-length": true, "etag": true}

// field is a field of a header as it is sent.
type field struct{ name, value string }

// appendFields appends the fields of a header, sorted by name. Those that cannot be sent are left out, as by net/http.
func appendFields(fields []field, header http.Header, skip func(key string) bool) []field {
	first := len(fields)
	for key, values := range header {
		name := lower(key)
		if name == "" || skip(key) {
			continue
		}
		for _, value := range values {
			if httpguts.ValidHeaderFieldValue(value) && (name != "transfer-encoding" || value == "trailers") {
				fields = append(fields, field{name, value})
			}
		}
	}
	slices.SortStableFunc(fields[first:], func(a, b field) int { return strings.Compare(a.name, b.name) })
	return fields
}

// headerFrames queues the frames of a header. code 0: it is one of trailers. last: the stream ends with it. c.mu is held.
func (c *conn) headerFrames(id uint32, fields []field, code int, last bool) {
	if c.fault != nil {
		return
	}
	flags := http2.FlagHeadersEndHeaders
	if last {
		flags |= http2.FlagHeadersEndStream
	}
	c.queue()
	begin := len(*c.out)
	*c.out = appendHeader(*c.out, 0, http2.FrameHeaders, flags, id)
	if code > 0 {
		c.encode(field{":status", statusText(code)})
	}
	for _, f := range fields {
		c.encode(f)
	}
	frame := (*c.out)[begin:]
	if size := len(frame) - headerSize; size <= c.frameSize {
		setSize(frame, size)
		return
	}
	block := slices.Clone(frame[headerSize:])
	*c.out = (*c.out)[:begin]
	c.split(id, block, flags)
}

// split queues a header that does not fit into a frame.
func (c *conn) split(id uint32, block []byte, flags http2.Flags) {
	c.frame(http2.FrameHeaders, flags&^http2.FlagHeadersEndHeaders, id, block[:c.frameSize])
	for block = block[c.frameSize:]; len(block) > c.frameSize; block = block[c.frameSize:] {
		c.frame(http2.FrameContinuation, 0, id, block[:c.frameSize])
	}
	c.frame(http2.FrameContinuation, http2.FlagContinuationEndHeaders, id, block)
}

// encoded takes what the encoder writes.
type encoded struct{ c *conn }

// Write is part of io.Writer.
func (e encoded) Write(p []byte) (int, error) {
	*e.c.out = append(*e.c.out, p...)
	return len(p), nil
}

func (c *conn) encode(f field) {
	_ = c.encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value, Sensitive: volatile[f.name]}) // into memory
}

// statusText is the status of an answer, without an allocation for those that are usual.
func statusText(code int) string {
	switch code {
	case http.StatusOK:
		return "200"
	case http.StatusCreated:
		return "201"
	case http.StatusNotFound:
		return "404"
	case http.StatusConflict:
		return "409"
	}
	return strconv.Itoa(code)
}
