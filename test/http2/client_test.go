package http2_test

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	defaultWindow = 65_535 // RFC 9113, 6.9.2
	maxFrame      = 16_384 // RFC 9113, 6.5.2: what a client accepts that says nothing
)

// client is a client of frames. What it is to send is written to out by the framer, right or wrong, and sent by flush. What
// comes is read by step, which keeps the account of windows in both directions, and fails the test where the server sends more
// than it may.
type client struct {
	*http2.Framer
	t    testing.TB
	addr string
	conn *tls.Conn
	out  bytes.Buffer

	block   bytes.Buffer
	encoder *hpack.Encoder

	next     uint32 // the stream to open next
	streams  map[uint32]*stream
	settings map[http2.SettingID]uint32 // the server's

	mayReceive int64 // what the server may send on the connection
	initial    int64 // what it may send on a new stream
	lowered    []map[uint32]int64
	maySend    int64 // what the server takes on the connection
	grants     bool  // what is received is granted again
	discards   bool  // what is received is only counted

	acks, pongs int
	goAway      *http2.ErrCode
	ended       error // why no more can be read
}

// stream is one request of a client, and what came for it.
type stream struct {
	id         uint32
	interim    []string // statuses of 1xx
	status     string
	header     http.Header
	body       []byte
	received   int  // bytes of body
	ended      bool // END_STREAM
	given      bool // up, by the client: what is still under way is ignored
	reset      *http2.ErrCode
	mayReceive int64
	maySend    int64
}

// dial opens a connection, and waits until both know the other's settings.
func (s *server) dial(t testing.TB, settings ...http2.Setting) *client {
	t.Helper()
	raw, err := net.DialTimeout("tcp", s.Addr, patience)
	must(t, err)
	// A client that does not read shall soon be one: with buffers of megabytes the server would not see it for long.
	must(t, raw.(*net.TCPConn).SetReadBuffer(64<<10))
	c := &client{
		t: t, addr: s.Addr, next: 1, conn: tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}),
		streams: map[uint32]*stream{}, settings: map[http2.SettingID]uint32{},
		mayReceive: defaultWindow, initial: defaultWindow, maySend: defaultWindow, grants: true,
	}
	t.Cleanup(c.close)
	must(t, c.conn.SetDeadline(time.Now().Add(patience)))
	must(t, c.conn.Handshake())
	if p := c.conn.ConnectionState().NegotiatedProtocol; p != "h2" {
		t.Fatalf("it speaks %q", p)
	}
	c.encoder = hpack.NewEncoder(&c.block)
	c.Framer = http2.NewFramer(&c.out, c.conn)
	c.AllowIllegalWrites = true
	c.SetMaxReadFrameSize(maxFrame)
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.out.WriteString(http2.ClientPreface)
	c.set(settings...)
	c.until("settings and their acknowledgement", func() bool { return len(c.settings) > 0 && c.acks > 0 })
	return c
}

func (c *client) close() { _ = c.conn.NetConn().Close() }

// set sends settings, and keeps account of what they do to the windows of streams. A window that shrinks does so for the
// server once it has read this, of which its acknowledgement tells.
func (c *client) set(settings ...http2.Setting) {
	lowered := map[uint32]int64{}
	for _, v := range settings {
		if v.ID != http2.SettingInitialWindowSize {
			continue
		}
		delta := int64(v.Val) - c.initial
		c.initial += delta
		for id, st := range c.streams {
			if delta > 0 {
				st.mayReceive += delta
			} else {
				lowered[id] += delta
			}
		}
	}
	c.lowered = append(c.lowered, lowered)
	must(c.t, c.WriteSettings(settings...))
	c.flush()
}

// send writes what the framer wrote, and returns why it cannot.
func (c *client) send(limit time.Duration) error {
	_ = c.conn.SetWriteDeadline(time.Now().Add(limit))
	_, err := c.conn.Write(c.out.Bytes())
	c.out.Reset()
	return err
}

// flush writes what the framer wrote. A server that has closed the connection is found by what is read, not here.
func (c *client) flush() { _ = c.send(patience) }

// field is a header field.
func field(name, value string) hpack.HeaderField { return hpack.HeaderField{Name: name, Value: value} }

// request has the fields of a request of the admin.
func (c *client) request(method, path string, more ...hpack.HeaderField) []hpack.HeaderField {
	return append([]hpack.HeaderField{
		field(":method", method), field(":scheme", "https"), field(":authority", c.addr), field(":path", path),
		field("authorization", "Bearer "+token), field("accept", "application/json"),
	}, more...)
}

// json is the field that requests with a body have.
var json = field("content-type", "application/json")

// encode encodes fields for the connection.
func (c *client) encode(fields ...hpack.HeaderField) []byte {
	c.block.Reset()
	for _, f := range fields {
		must(c.t, c.encoder.WriteField(f))
	}
	return bytes.Clone(c.block.Bytes())
}

// open writes HEADERS of a new stream, and does not flush.
func (c *client) open(end bool, fields ...hpack.HeaderField) *stream {
	st := &stream{id: c.next, mayReceive: c.initial, maySend: c.window()}
	c.streams[st.id] = st
	c.next += 2
	must(c.t, c.WriteHeaders(http2.HeadersFrameParam{StreamID: st.id, EndStream: end, EndHeaders: true, BlockFragment: c.encode(fields...)}))
	return st
}

// window is how much the server takes of a new stream.
func (c *client) window() int64 {
	if v, ok := c.settings[http2.SettingInitialWindowSize]; ok {
		return int64(v)
	}
	return defaultWindow
}

// get sends a GET of the admin.
func (c *client) get(path string, more ...hpack.HeaderField) *stream {
	st := c.open(true, c.request(http.MethodGet, path, more...)...)
	c.flush()
	return st
}

// cancel gives a stream up, and does not flush.
func (c *client) cancel(st *stream) {
	st.given = true
	must(c.t, c.WriteRSTStream(st.id, http2.ErrCodeCancel))
}

// alive fails unless the connection still serves.
func (c *client) alive() {
	c.t.Helper()
	if st := c.await(c.get("/livez")); st.status != "200" || string(st.body) != "ok" {
		c.t.Errorf("after this the connection does not serve: %s", c.tell(st))
	}
}

// upload sends a body in frames of that many bytes with that much padding, as windows allow, and waits for no answer.
func (c *client) upload(st *stream, body []byte, chunk, pad int, end bool) {
	c.t.Helper()
	for len(body) > 0 {
		n := min(chunk, len(body))
		cost := int64(n)
		if pad > 0 {
			cost += int64(pad) + 1 // RFC 9113, 6.1: the length of the padding counts too
		}
		if c.maySend < cost || st.maySend < cost {
			c.flush()
			c.until("a WINDOW_UPDATE for an upload", func() bool { return c.maySend >= cost && st.maySend >= cost || st.over() })
		}
		if st.over() {
			return // it has an answer already
		}
		c.maySend, st.maySend = c.maySend-cost, st.maySend-cost
		last := end && n == len(body)
		if pad > 0 {
			must(c.t, c.WriteDataPadded(st.id, last, body[:n], make([]byte, pad)))
		} else {
			must(c.t, c.WriteData(st.id, last, body[:n]))
		}
		body = body[n:]
		if c.out.Len() > maxFrame {
			c.flush()
		}
	}
	c.flush()
}
