package http2_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// without leaves out a field.
func without(name string) func([]hpack.HeaderField) []hpack.HeaderField {
	return func(fields []hpack.HeaderField) []hpack.HeaderField {
		return slices.DeleteFunc(fields, func(f hpack.HeaderField) bool { return f.Name == name })
	}
}

// with adds fields to the end.
func with(more ...hpack.HeaderField) func([]hpack.HeaderField) []hpack.HeaderField {
	return func(fields []hpack.HeaderField) []hpack.HeaderField { return append(fields, more...) }
}

// first puts a field before all others, where those are that begin with a colon.
func first(f hpack.HeaderField) func([]hpack.HeaderField) []hpack.HeaderField {
	return func(fields []hpack.HeaderField) []hpack.HeaderField { return append([]hpack.HeaderField{f}, fields...) }
}

// replaced gives a field another value.
func replaced(name, value string) func([]hpack.HeaderField) []hpack.HeaderField {
	return func(fields []hpack.HeaderField) []hpack.HeaderField {
		return first(field(name, value))(without(name)(fields))
	}
}

// malformed are requests that RFC 9113 calls malformed, each made from a good one, by section.
var malformed = []struct {
	name string
	do   func([]hpack.HeaderField) []hpack.HeaderField
}{
	{"8.2.1 upper-case name", with(field("X-Upper", "v"))},
	{"8.2.1 space in a name", with(field("x upper", "v"))},
	{"8.2.1 control character in a name", with(field("x\x00", "v"))},
	{"8.2.1 colon in a name", with(field("x:y", "v"))},
	{"8.2.1 no name", with(field("", "v"))},
	{"8.2.1 line break in a value", with(field("x-v", "a\r\nx-other: b"))},
	{"8.2.1 zero byte in a value", with(field("x-v", "a\x00b"))},
	{"8.2.2 connection", with(field("connection", "close"))},
	{"8.2.2 keep-alive", with(field("keep-alive", "5"))},
	{"8.2.2 proxy-connection", with(field("proxy-connection", "close"))},
	{"8.2.2 transfer-encoding", with(field("transfer-encoding", "chunked"))},
	{"8.2.2 upgrade", with(field("upgrade", "websocket"))},
	{"8.2.2 te", with(field("te", "gzip"))},
	{"8.3 pseudo-header field after others", func(f []hpack.HeaderField) []hpack.HeaderField {
		return with(field(":path", "/livez"))(without(":path")(f))
	}},
	{"8.3 unknown pseudo-header field", first(field(":other", "v"))},
	{"8.3 pseudo-header field of an answer", first(field(":status", "200"))},
	{"8.3.1 no :method", without(":method")},
	{"8.3.1 no :scheme", without(":scheme")},
	{"8.3.1 no :path", without(":path")},
	{"8.3.1 empty :path", replaced(":path", "")},
	{"8.3.1 :path that does not begin with a slash", replaced(":path", "livez")},
	{"8.3 two of :method", first(field(":method", "GET"))},
	{"8.3 two of :scheme", first(field(":scheme", "https"))},
	{"8.3 two of :path", first(field(":path", "/livez"))},
	{"8.3 two of :authority", first(field(":authority", "example.com"))},
	{"8.5 CONNECT with :path", replaced(":method", "CONNECT")},
}

// TestMalformed requires a stream error PROTOCOL_ERROR, before which the server may answer 400 (RFC 9113, 8.1.1), or one of the
// connection (5.4.2). The request is not carried out. net/http answers 400 to fields of a connection (8.2.2), without a reset,
// and resets the stream for the rest.
func TestMalformed(t *testing.T) {
	s := start(t)
	c := s.dial(t)
	for _, row := range malformed {
		t.Run(row.name, func(t *testing.T) {
			if c.refused() || c.ended != nil {
				c = s.dial(t)
			}
			c.t = t
			st := c.open(true, row.do(c.request(http.MethodGet, "/livez"))...)
			c.flush()
			c.rejected(st)
		})
	}
	c.t = t
	if !c.refused() && c.ended == nil {
		c.alive()
	}
}

// rejected requires that a request was not carried out because it is malformed.
func (c *client) rejected(st *stream) {
	c.t.Helper()
	c.await(st)
	switch {
	case st.status == "400" && (st.reset == nil || *st.reset == http2.ErrCodeProtocol || *st.reset == http2.ErrCodeNo):
	case st.status == "" && st.reset != nil && *st.reset == http2.ErrCodeProtocol:
	case st.status == "" && c.goAway != nil && *c.goAway == http2.ErrCodeProtocol:
	default:
		c.t.Errorf("400 or PROTOCOL_ERROR is required: %s", c.tell(st))
	}
	c.t.Log(c.tell(st))
}

// TestWellFormed has requests that look odd, and are right.
func TestWellFormed(t *testing.T) {
	c := start(t).dial(t)
	for _, row := range []struct {
		name string
		do   func([]hpack.HeaderField) []hpack.HeaderField
	}{
		{"te: trailers", with(field("te", "trailers"))},                         // RFC 9113, 8.2.2
		{"cookie in parts", with(field("cookie", "a=b"), field("cookie", "c"))}, // 8.2.3
		{"host, no :authority", func(f []hpack.HeaderField) []hpack.HeaderField { // 8.3.1
			return with(field("host", "example.com"))(without(":authority")(f))
		}},
		{"a value of 100 kB", with(field("x-long", strings.Repeat("v", 100_000)))},
		{"an empty value", with(field("x-empty", ""))},
		{"content-length: 0", with(field("content-length", "0"))},
	} {
		t.Run(row.name, func(t *testing.T) {
			c.t = t
			fields := row.do(c.request(http.MethodGet, "/livez"))
			st := &stream{id: c.next, mayReceive: c.initial}
			c.streams[st.id] = st
			c.next += 2
			c.fragments(st.id, true, c.encode(fields...))
			if c.await(st); st.status != "200" || string(st.body) != "ok" {
				t.Errorf("%s", c.tell(st))
			}
		})
	}
}

// fragments sends a field block in HEADERS and CONTINUATION as large as any server takes, and the first of no bytes at all.
func (c *client) fragments(id uint32, end bool, block []byte) {
	must(c.t, c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: end}))
	for ; len(block) > maxFrame; block = block[maxFrame:] {
		must(c.t, c.WriteContinuation(id, false, block[:maxFrame]))
	}
	must(c.t, c.WriteContinuation(id, true, block))
	c.flush()
}

// TestUnknown has what a server must ignore: frames and settings that it does not know (RFC 9113, 5.5 and 6.5.2), flags that
// mean nothing, and priorities (5.3.2), which a stream may still not give itself (RFC 7540, 5.3.1: an error of the stream then).
func TestUnknown(t *testing.T) {
	c := start(t).dial(t)
	must(t, c.WriteRawFrame(0xfa, 0xff, 0, []byte("of the connection")))
	must(t, c.WriteRawFrame(0xfa, 0xff, 7, []byte("of an idle stream")))
	must(t, c.WriteRawFrame(http2.FramePing, 0xfe, 0, make([]byte, 8)))
	must(t, c.WriteRawFrame(http2.FrameSettings, 0xfe, 0, nil))
	c.lowered = append(c.lowered, nil)
	c.pong()                                                                 // for net/http acknowledges two SETTINGS at once, if it can
	c.set(http2.Setting{ID: 0xfafa, Val: 1}, http2.Setting{ID: 0x9, Val: 1}) // the latter is NO_RFC7540_PRIORITIES
	must(t, c.WritePriority(c.next+2, http2.PriorityParam{StreamDep: c.next, Weight: 255, Exclusive: true}))
	must(t, c.WriteRawFrame(0x10, 0, 0, []byte("\x00\x00\x00\x01u=1"))) // PRIORITY_UPDATE of RFC 9218
	c.alive()
	st := c.open(false, c.request(http.MethodPost, configMaps, json)...)
	must(t, c.WriteRawFrame(0xfa, 0xff, st.id, []byte("in the middle of a body")))
	c.upload(st, configMap("beside-unknown", 100), 50, 0, true)
	if c.await(st); st.status != "201" {
		t.Errorf("an upload with an unknown frame in it: %s", c.tell(st))
	}
	c.until("the acknowledgements", func() bool { return c.acks == 3 && c.pongs == 2 })
}

// TestSelfDependency accepts both RFCs: 7540 calls it an error PROTOCOL_ERROR, which net/http resets the stream for; 9113 says
// nothing of it any more.
func TestSelfDependency(t *testing.T) {
	s := start(t)
	c := s.dial(t)
	st := c.open(false, c.request(http.MethodPost, configMaps, json)...)
	must(t, c.WritePriority(st.id, http2.PriorityParam{StreamDep: st.id, Weight: 1}))
	c.upload(st, configMap("self", 100), 50, 0, true)
	c.await(st)
	t.Log(c.tell(st))
	switch {
	case st.status == "201":
	case st.reset != nil && *st.reset == http2.ErrCodeProtocol, c.goAway != nil && *c.goAway == http2.ErrCodeProtocol:
	default:
		t.Errorf("PROTOCOL_ERROR, or to be ignored: %s", c.tell(st))
	}
	if !c.refused() {
		c.alive()
	}
}

// TestFrameTooLarge sends a frame that is larger than the server says that it reads, by one byte: FRAME_SIZE_ERROR (RFC 9113,
// 4.2), of the connection where the frame is one of it or changes its state. One that is as large as allowed is read.
func TestFrameTooLarge(t *testing.T) {
	s := start(t)
	for _, kind := range []http2.FrameType{http2.FrameHeaders, http2.FrameSettings, 0xfa} {
		c := s.dial(t)
		most := maxFrame
		if v, ok := c.settings[http2.SettingMaxFrameSize]; ok {
			most = int(v)
		}
		must(t, c.WriteRawFrame(0xfa, 0, 0, make([]byte, most)))
		c.flush()
		c.alive()
		must(t, c.WriteRawFrame(kind, http2.FlagHeadersEndHeaders&^0x1, map[bool]uint32{true: c.next}[kind == http2.FrameHeaders], make([]byte, most+1)))
		c.flush()
		if !c.awaitEnd() || c.goAway == nil || *c.goAway != http2.ErrCodeFrameSize {
			t.Errorf("%v of %d bytes: %s", kind, most+1, c.tell(nil))
		}
	}
}
