package http2_test

import (
	"bytes"
	encoding "encoding/json"
	"fmt"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
)

// This file has bodies of requests, and the windows that the server opens for them.

// value is what configMap put into an object.
func (s *server) value(t *testing.T, name string) string {
	t.Helper()
	_, b := s.do(t, http.MethodGet, configMaps+"/"+name, nil)
	var object struct{ Data map[string]string }
	must(t, encoding.Unmarshal(b, &object))
	return object.Data["k"]
}

// TestUpload sends bodies in small frames, which are larger in sum than the windows: the server has to open them again, for the
// padding too (RFC 9113, 6.1), or client.upload waits in vain.
func TestUpload(t *testing.T) {
	s := start(t)
	for i, row := range []struct{ size, chunk, pad int }{
		{1_000_000, 1000, 0},
		{1_000_000, maxFrame, 0},
		{1_000_000, 700, 200},
		{4000, 1, 255}, // on the wire a megabyte
		{4000, 1, 0},
	} {
		t.Run(fmt.Sprintf("%+v", row), func(t *testing.T) {
			c := s.dial(t)
			name := fmt.Sprintf("upload-%d", i)
			body := configMap(name, row.size)
			st := c.open(false, c.request(http.MethodPost, configMaps, json)...)
			c.upload(st, body, row.chunk, row.pad, true)
			if c.await(st); st.status != "201" {
				t.Fatalf("201 is required: %s", c.tell(st))
			}
			if got := s.value(t, name); len(got) != row.size || !bytes.Contains(body, []byte(got)) {
				t.Errorf("%d bytes are stored of %d, or others", len(got), row.size)
			}
		})
	}
}

// TestUploadsSideBySide sends three bodies on one connection, a frame of each in turn.
func TestUploadsSideBySide(t *testing.T) {
	s := start(t)
	c := s.dial(t)
	var all []*stream
	var bodies [][]byte
	for i := range 3 {
		all = append(all, c.open(false, c.request(http.MethodPost, configMaps, json)...))
		bodies = append(bodies, configMap(fmt.Sprintf("beside-%d", i), 400_000+i))
	}
	for len(bodies[2]) > 0 {
		for i, st := range all {
			n := min(5000, len(bodies[i]))
			c.upload(st, bodies[i][:n], n, 0, n == len(bodies[i]))
			bodies[i] = bodies[i][n:]
		}
	}
	for i, st := range all {
		if c.await(st); st.status != "201" || len(s.value(t, fmt.Sprintf("beside-%d", i))) != 400_000+i {
			t.Errorf("upload %d: %s", i, c.tell(st))
		}
	}
}

// TestWindowExceeded sends more than the server's windows allow on streams whose body nobody reads, those of watches:
// FLOW_CONTROL_ERROR of the stream or the connection for the stream's window, of the connection for its own (RFC 9113, 6.9.1).
func TestWindowExceeded(t *testing.T) {
	s := start(t)
	s.withstands(t, floodMemory, func() {
		c := s.dial(t)
		defer c.close()
		st := c.open(false, c.request(http.MethodGet, watch)...)
		c.flush()
		c.until("the status of a watch", func() bool { return st.status == "200" })
		c.pong() // the windows are known now
		c.upload(st, make([]byte, st.maySend), maxFrame, 0, false)
		c.pong()
		if st.over() || st.maySend > 0 {
			t.Fatalf("the server opens a window for what nobody reads, or ends its stream: %d, %s", st.maySend, c.tell(st))
		}
		must(t, c.WriteData(st.id, false, []byte("x")))
		c.flush()
		c.isError(st, false, http2.ErrCodeFlowControl)
	})
	s.withstands(t, floodMemory, func() {
		c := s.dial(t)
		defer c.close()
		c.pong()
		if int64(c.most())*c.window() <= c.maySend {
			t.Skip("the windows of all streams are within the connection's")
		}
		var st *stream
		for c.maySend > 0 {
			st = c.open(false, c.request(http.MethodGet, watch)...)
			c.upload(st, make([]byte, min(c.maySend, st.maySend)), maxFrame, 0, false)
		}
		c.pong()
		st = c.open(false, c.request(http.MethodGet, watch)...)
		must(t, c.WriteData(st.id, false, []byte("x")))
		c.flush()
		c.until("an error", func() bool { return c.refused() || st.reset != nil || c.ended != nil })
		// net/http resets the stream only.
		if !(c.goAway != nil && *c.goAway == http2.ErrCodeFlowControl || st.reset != nil && *st.reset == http2.ErrCodeFlowControl) {
			t.Errorf("FLOW_CONTROL_ERROR is required: %s", c.tell(st))
		}
		t.Log(c.tell(st))
	})
}

// TestUnreadBodies ends streams whose bodies the server has not read, in many ways, until there were more bytes than the
// window of the connection: each must give back what it used (RFC 9113, 6.9), or the last upload waits in vain.
func TestUnreadBodies(t *testing.T) {
	s := start(t)
	const size = 250_000
	for i, row := range []struct {
		name, path string
		end        bool
		status     string // that comes, unless the client resets the stream first
		cancel     bool
	}{
		{"upload given up", configMaps, false, "", true},
		{"watch given up", watch, false, "", true},
		{"answered early", "/apis/none.example.com/v1", false, "404", false},
		{"answered and ended", "/apis/none.example.com/v1", true, "404", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s.withstands(t, floodMemory, func() {
				c := s.dial(t)
				defer c.close()
				c.pong()
				method := map[bool]string{true: http.MethodGet, false: http.MethodPost}[row.path == watch]
				for sent := int64(0); sent < 3*16<<20; sent += size {
					st := c.open(false, c.request(method, row.path, json)...)
					c.upload(st, configMap("unread", size)[:size], maxFrame, 0, row.end)
					if row.cancel {
						c.cancel(st)
						c.flush()
					} else if c.await(st); st.status != row.status {
						t.Fatalf("%s is required: %s", row.status, c.tell(st))
					} else if st.reset == nil && !row.end { // RFC 9113, 8.1: the client may stop, and has to tell
						c.cancel(st)
					} else if st.reset != nil && *st.reset != http2.ErrCodeNo {
						t.Errorf("an early answer has %s", c.tell(st))
					}
				}
				st := c.open(false, c.request(http.MethodPost, configMaps, json)...)
				c.upload(st, configMap(fmt.Sprintf("after-%d", i), 900_000), maxFrame, 0, true)
				if c.await(st); st.status != "201" {
					t.Errorf("an upload after that: %s", c.tell(st))
				}
			})
			if s.stored(t, "unread") {
				t.Error("what was given up is stored")
			}
		})
	}
}

// TestTooLarge sends a body that is larger than kanzen reads. It answers 413 before it has all, and then resets the stream
// without an error (RFC 9113, 8.1), or takes the rest.
func TestTooLarge(t *testing.T) {
	s := start(t)
	s.withstands(t, floodMemory, func() {
		c := s.dial(t)
		defer c.close()
		c.pong()
		st := c.open(false, c.request(http.MethodPost, configMaps, json)...)
		c.upload(st, configMap("too-large", 20_000_000), maxFrame, 0, true)
		if c.await(st); st.status != "413" || st.reset != nil && *st.reset != http2.ErrCodeNo {
			t.Errorf("413 is required: %s", c.tell(st))
		}
		c.alive()
	})
}
