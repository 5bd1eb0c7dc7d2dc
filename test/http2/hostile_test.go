package http2_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// How a flood ends.
const (
	closed  = "the server closed the connection"
	blocked = "the server read no more"
	taken   = "the server took all of it"
)

const (
	floodMemory = 96              // MiB that a flood may cost
	floodTime   = 8 * time.Second // of a flood that the server takes
	stuck       = 3 * time.Second // without a byte read by the server: it reads no more
)

// flood sends what batch writes until the server has taken a number of batches, or floodTime is over, and tells how it ended.
func (c *client) flood(batches int, batch func()) string {
	end := time.Now().Add(floodTime)
	for range batches {
		batch()
		if err := c.send(stuck); timedOut(err) {
			return blocked
		} else if err != nil {
			return closed
		}
		if time.Now().After(end) {
			break
		}
	}
	return taken
}

// each writes a frame so many times.
func each(n int, write func(i int) error) func() {
	return func() {
		for i := range n {
			_ = write(i) // into memory
		}
	}
}

// harm is what a hostile client does, and how it may end.
type harm struct {
	name   string
	reads  bool // the client reads all that comes, meanwhile
	do     func(c *client) string
	expect []string
}

// TestFlood has clients send what costs them less than the server, as fast as they can. RFC 9113, 10.5, lets a server end such
// a connection (ENHANCE_YOUR_CALM); one that can take it all need not.
func TestFlood(t *testing.T) {
	s := start(t)
	for _, h := range slices.Concat(resets, floods, headerFloods) {
		t.Run(h.name, func(t *testing.T) {
			s.withstands(t, floodMemory, func() {
				ending := s.dial(t).suffer(h)
				t.Log(ending)
				if !slices.ContainsFunc(h.expect, func(may string) bool { return strings.HasPrefix(ending, may) }) {
					t.Errorf("%s; may be: %s", ending, strings.Join(h.expect, ", "))
				}
			})
		})
	}
}

// suffer does harm, and tells how it ended. That all was sent does not say that the server took it: it has once it
// acknowledges a PING that comes after.
func (c *client) suffer(h harm) string {
	defer c.close()
	var d *drained
	if h.reads {
		d = c.drain()
	}
	ending := h.do(c)
	if ending == blocked {
		return ending
	}
	if d == nil {
		d = c.drain()
	}
	_ = c.WritePing(false, last)
	_ = c.send(stuck)
	select {
	case code := <-d.end:
		return closed + ", with " + code
	case <-d.pong:
		return taken
	case <-time.After(patience):
		return blocked + ", and neither answers nor closes the connection"
	}
}

// reset opens 100,000 streams and gives each up at once (CVE-2023-44487), by a frame of the client's.
func reset(path string, giveUp func(c *client, id uint32) error) func(c *client) string {
	return func(c *client) string {
		return c.flood(1000, each(100, func(int) error {
			id := c.next
			c.next += 2
			block := c.encode(c.request(http.MethodGet, path)...)
			if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true, EndHeaders: true, BlockFragment: block}); err != nil {
				return err
			}
			return giveUp(c, id)
		}))
	}
}

func cancels(c *client, id uint32) error { return c.WriteRSTStream(id, http2.ErrCodeCancel) }

// net/http: GOAWAY ENHANCE_YOUR_CALM once more than 400 requests wait for those that were given up, and still run.
var resets = []harm{
	{"rapid reset", true, reset("/livez", cancels), []string{closed, blocked, taken}},
	{"rapid reset of lists", true, reset("/api/v1/namespaces", cancels), []string{closed, blocked, taken}},
	{"rapid reset of watches", true, reset("/api/v1/namespaces?watch=true", cancels), []string{closed, blocked, taken}},
	{"rapid reset without reading", false, reset("/livez", cancels), []string{closed, blocked, taken}},
	// CVE-2025-8671: the server resets the streams itself, because of an error of the client's.
	{"resets that the server is made to send", true, reset("/livez", func(c *client, id uint32) error {
		return c.WriteRawFrame(http2.FrameWindowUpdate, 0, id, []byte{0, 0, 0, 0})
	}), []string{closed, blocked, taken}},
	{"resets that the server is made to send, without reading", false, reset("/livez", func(c *client, id uint32) error {
		return c.WriteRawFrame(http2.FrameWindowUpdate, 0, id, []byte{0, 0, 0, 0})
	}), []string{closed, blocked}},
}

// The server has to answer each PING, and cannot, so it must end the connection or stop reading (CVE-2019-9512): net/http
// closes it once 10,000 answers wait, without a GOAWAY. It acknowledges many SETTINGS with one frame, so it may take them all
// (CVE-2019-9515).
var floods = []harm{
	{"PING without reading", false, func(c *client) string {
		return c.flood(5000, each(1000, func(int) error { return c.WritePing(false, [8]byte{}) }))
	}, []string{closed, blocked}},
	{"SETTINGS without reading", false, func(c *client) string {
		return c.flood(2000, each(1000, func(int) error { return c.WriteSettings() }))
	}, []string{closed, blocked, taken}},
	{"SETTINGS that change windows", true, func(c *client) string {
		return c.flood(500, each(1000, func(i int) error {
			return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)})
		}))
	}, []string{closed, blocked, taken}},
	{"acknowledgements of no SETTINGS", true, func(c *client) string { // net/http: PROTOCOL_ERROR
		return c.flood(500, each(1000, func(int) error { return c.WriteSettingsAck() }))
	}, []string{closed, blocked, taken}},
	{"empty DATA", true, func(c *client) string { // CVE-2019-9518
		st := c.open(false, c.request(http.MethodPost, configMaps, json)...)
		return c.flood(1000, each(1000, func(int) error { return c.WriteData(st.id, false, nil) }))
	}, []string{closed, blocked, taken}},
	{"PRIORITY of idle streams", true, func(c *client) string { // CVE-2019-9513
		return c.flood(1000, each(1000, func(int) error {
			c.next += 2
			return c.WritePriority(c.next, http2.PriorityParam{StreamDep: c.next - 2, Weight: 7})
		}))
	}, []string{closed, blocked, taken}},
	{"WINDOW_UPDATE", true, func(c *client) string {
		return c.flood(1000, each(1000, func(int) error { return c.WriteWindowUpdate(0, 1) }))
	}, []string{closed, blocked, taken}},
	{"unknown frames", true, func(c *client) string {
		return c.flood(1000, each(20, func(int) error { return c.WriteRawFrame(0xbe, 0xff, 0, make([]byte, maxFrame)) }))
	}, []string{closed, blocked, taken}},
}

// header opens a stream with the beginning of a field block.
func header(c *client, fields ...hpack.HeaderField) uint32 {
	id := c.next
	c.next += 2
	block := c.encode(c.request(http.MethodGet, "/livez", fields...)...)
	must(c.t, c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true, BlockFragment: block}))
	return id
}

// A field block that does not end costs memory, or, where it has no bytes, time (CVE-2024-27316, CVE-2019-9516). net/http ends
// the connection in the first two cases, with PROTOCOL_ERROR and COMPRESSION_ERROR, and takes empty frames for ever.
var headerFloods = []harm{
	{"CONTINUATION with new fields", true, func(c *client) string {
		id, n := header(c), 0
		return c.flood(20_000, func() {
			n++
			_ = c.WriteContinuation(id, false, c.encode(field("x-more", strings.Repeat("v", 8000)+string(rune('a'+n%26)))))
		})
	}, []string{closed, blocked}},
	{"CONTINUATION with one string that does not end", true, func(c *client) string {
		id := header(c)
		_ = c.WriteContinuation(id, false, []byte{0x00, 0x01, 'x', 0x7f, 0xff, 0xff, 0xff, 0xff, 0x07}) // a literal, its length 2^31 and more
		return c.flood(20_000, func() { _ = c.WriteContinuation(id, false, make([]byte, maxFrame)) })
	}, []string{closed, blocked}},
	{"CONTINUATION of no bytes", true, func(c *client) string {
		id := header(c)
		ending := c.flood(2000, each(1000, func(int) error { return c.WriteContinuation(id, false, nil) }))
		_ = c.WriteContinuation(id, true, nil) // so that other frames may follow
		return ending
	}, []string{closed, blocked, taken}},
}

// TestHeaderBomb refers thousands of times to one large entry of the table of field names and values (CVE-2016-6581): 16 kB
// on the wire are 60 MB of fields. RFC 9113, 10.5.1: the server may answer 431, or treat it as an error; net/http answers 431.
func TestHeaderBomb(t *testing.T) {
	s := start(t)
	for _, name := range []string{"x-bomb", "cookie"} { // which are joined to one field
		t.Run(name, func(t *testing.T) {
			s.withstands(t, floodMemory, func() {
				c := s.dial(t)
				defer c.close()
				for range 200 {
					if !c.bomb(name) {
						break
					}
				}
				if !c.refused() && c.ended == nil {
					c.alive()
				}
			})
		})
	}
}

// bomb sends one request, and tells whether the connection is still there.
func (c *client) bomb(name string) bool {
	c.t.Helper()
	block := c.encode(c.request(http.MethodGet, "/livez", field(name, strings.Repeat("b", 3900)))...)
	newest := byte(0x80 | 62) // RFC 7541, 2.3.3: the entry that was added last
	block = append(block, slices.Repeat([]byte{newest}, maxFrame-len(block))...)
	st := &stream{id: c.next, mayReceive: c.initial}
	c.streams[st.id] = st
	c.next += 2
	must(c.t, c.WriteHeaders(http2.HeadersFrameParam{StreamID: st.id, EndStream: true, EndHeaders: true, BlockFragment: block}))
	c.flush()
	for end := time.Now().Add(patience); !st.over() && c.ended == nil && !c.refused(); {
		if !c.step(end) {
			break
		}
	}
	if st.status != "" && st.status != "431" || !st.over() && !c.refused() && (c.ended == nil || timedOut(c.ended)) {
		c.t.Errorf("60 MB of fields in 16 kB: %s", c.tell(st))
	}
	return !c.refused() && c.ended == nil
}

// TestHalfRequests opens connections that send a part of what they have to, and no more: 200 of them, each with a part of the
// preface, a frame, a field block or a body. None may cost more than its own buffers.
func TestHalfRequests(t *testing.T) {
	s := start(t)
	s.withstands(t, floodMemory, func() {
		for i := range 200 {
			c := s.dial(t)
			switch i % 3 {
			case 0:
				c.out.Write([]byte{0, 0x40, 0, byte(http2.FrameHeaders), 0x4, 0, 0, 0, 1, 0x82}) // the first byte of 16,384
			case 1:
				header(c)
			case 2:
				c.open(false, c.request(http.MethodPost, configMaps, json, field("content-length", "3000000"))...)
			}
			if err := c.send(patience); err != nil {
				t.Errorf("half a request is not taken: %v", err)
			}
			defer c.close()
		}
	})
}
