package http2_test

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
)

// This file has the windows for what the server sends (RFC 9113, 5.2 and 6.9). That no DATA exceeds them is held by client.data.

// largest is the largest window (RFC 9113, 6.9.1).
const largest = math.MaxInt32

// TestWindowErrors has WINDOW_UPDATE and SETTINGS that are errors, each while a list waits for its window.
func TestWindowErrors(t *testing.T) {
	s := start(t)
	path, _ := s.list(t, 1)
	for _, row := range []struct {
		name       string
		connection bool // the error is one of the connection: RFC 9113, 6.9, and 6.9.1, 6.9.2
		code       http2.ErrCode
		do         func(c *client, st *stream)
	}{
		{"WINDOW_UPDATE of 0 on a stream", false, http2.ErrCodeProtocol, func(c *client, st *stream) {
			_ = c.WriteRawFrame(http2.FrameWindowUpdate, 0, st.id, make([]byte, 4))
		}},
		{"WINDOW_UPDATE of 0 on the connection", true, http2.ErrCodeProtocol, func(c *client, st *stream) {
			_ = c.WriteRawFrame(http2.FrameWindowUpdate, 0, 0, make([]byte, 4))
		}},
		{"a window of a stream of more than 2^31-1", false, http2.ErrCodeFlowControl, func(c *client, st *stream) {
			c.grant(st, largest)
			c.grant(st, largest)
		}},
		{"a window of the connection of more than 2^31-1", true, http2.ErrCodeFlowControl, func(c *client, st *stream) {
			c.grant(nil, largest)
			c.grant(nil, largest)
		}},
		{"SETTINGS that make a window of a stream more than 2^31-1", true, http2.ErrCodeFlowControl, func(c *client, st *stream) {
			c.grant(st, largest)
			c.set(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100_000})
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := s.dial(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			c.grants = false
			st := c.get(path)
			row.do(c, st)
			c.flush()
			c.isError(st, row.connection, row.code)
		})
	}
}

// isError requires an error of a stream, or of the connection. RFC 9113, 5.4.2, lets a server make the first into the second.
func (c *client) isError(st *stream, connection bool, code http2.ErrCode) {
	c.t.Helper()
	c.await(st)
	switch {
	case c.goAway != nil && *c.goAway == code:
		if !c.awaitEnd() {
			c.t.Errorf("the connection stays open after %s", c.tell(st))
		}
	case connection || st.reset == nil || *st.reset != code:
		c.t.Errorf("%v of a stream (of the connection: %v) is required: %s", code, connection, c.tell(st))
	default:
		c.grants = true
		c.set(http2.Setting{ID: http2.SettingInitialWindowSize, Val: defaultWindow})
		c.alive()
	}
}

// TestInitialWindow changes SETTINGS_INITIAL_WINDOW_SIZE while a list is sent: to less than was sent, so that the window is
// negative, and to all that there can be (RFC 9113, 6.9.2).
func TestInitialWindow(t *testing.T) {
	s := start(t)
	path, want := s.list(t, 4)
	c := s.dial(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100_000})
	c.grants = false
	c.grant(nil, 1<<30)
	st := c.get(path)
	got := func(n int) {
		t.Helper()
		c.until(fmt.Sprintf("%d bytes of a list", n), func() bool { return st.received >= n })
		c.pong() // what came until now is all that may
		if st.received != n {
			t.Fatalf("%d bytes came, the window was for %d", st.received, n)
		}
	}
	got(100_000)
	acks := c.acks
	c.set(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	c.until("the acknowledgement of SETTINGS", func() bool { return c.acks > acks })
	c.grant(st, 99_999) // the window was -100,000
	c.flush()
	got(100_000)
	c.grant(st, 2)
	c.flush()
	got(100_001)
	second := c.get("/livez") // its window is 0
	c.until("the status of an answer without a window", func() bool { return second.status == "200" })
	c.pong()
	c.set(http2.Setting{ID: http2.SettingInitialWindowSize, Val: largest})
	if c.await(st); !st.ended || !bytes.Equal(st.body, want) {
		t.Errorf("the list is not what net/http's client reads (%d bytes): %s", len(want), c.tell(st))
	}
	if c.await(second); string(second.body) != "ok" {
		t.Errorf("the answer that had no window: %s", c.tell(second))
	}
	c.alive()
}

// TestByteByByte opens a window one byte at a time, the stream's or the connection's, which costs a frame for each. The server
// has to go along (RFC 9113, 10.5, would let it end this), at the cost of no other client.
func TestByteByByte(t *testing.T) {
	s := start(t)
	path, want := s.list(t, 4)
	for _, connection := range []bool{false, true} {
		t.Run(fmt.Sprintf("connection=%v", connection), func(t *testing.T) {
			s.withstands(t, listMemory, func() {
				c := s.dial(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
				defer c.close()
				c.grants = false
				st := c.get(path)
				narrow, begin := st, 0
				if connection {
					c.grant(st, largest)
					c.flush()
					narrow, begin = nil, defaultWindow
					c.until("what the connection's window allows", func() bool { return st.received == begin })
				}
				for i := range 3000 {
					c.grant(narrow, 1)
					c.flush()
					c.until("a byte", func() bool { return st.received == begin+i+1 })
				}
				if !bytes.Equal(st.body, want[:len(st.body)]) {
					t.Error("the list is not what net/http's client reads")
				}
				c.cancel(st)
				c.grants = true
				c.set(http2.Setting{ID: http2.SettingInitialWindowSize, Val: defaultWindow})
				c.grant(nil, 1000)
				c.alive()
			})
		})
	}
}

// TestSlowList reads a list that is much larger than its windows a little at a time, to its end.
func TestSlowList(t *testing.T) {
	s := start(t)
	path, want := s.list(t, 6)
	for _, step := range []int{777, maxFrame, defaultWindow} {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			c := s.dial(t)
			c.grants = false
			st := c.get(path)
			for st.received < len(want) {
				c.until("what a window allows", func() bool { return c.mayReceive == 0 || st.received == len(want) })
				c.grant(st, uint32(step))
				c.grant(nil, uint32(step))
				c.flush()
			}
			c.await(st)
			if !st.ended || !bytes.Equal(st.body, want) {
				t.Errorf("the list is not what net/http's client reads (%d bytes): %s", len(want), c.tell(st))
			}
		})
	}
}

// TestGivenUp gives up lists in the middle, often: what they wait for is given up by the server too, and what they used of
// the connection's window can be used again.
func TestGivenUp(t *testing.T) {
	s := start(t)
	path, want := s.list(t, 4)
	s.withstands(t, listMemory, func() {
		c := s.dial(t)
		defer c.close()
		for range 100 {
			st := c.get(path)
			c.until("the beginning of a list", func() bool { return st.received > 0 })
			c.cancel(st)
			c.flush()
		}
		if st := c.await(c.get(path)); st.status != "200" || !bytes.Equal(st.body, want) {
			t.Errorf("the last list: %s", c.tell(st))
		}
	})
}

// TestTablesShrink has a client take the server's table of fields away, and give it back, between answers (RFC 9113, 6.5.2, and
// RFC 7541, 4.2). A server that refers to what it may no longer keep fails the decoding of client.step.
func TestTablesShrink(t *testing.T) {
	c := start(t).dial(t)
	for _, size := range []uint32{0, 4096, 100, 0, 1 << 16} {
		acks := c.acks
		c.set(http2.Setting{ID: http2.SettingHeaderTableSize, Val: size})
		c.until("the acknowledgement of SETTINGS", func() bool { return c.acks > acks })
		c.ReadMetaHeaders.SetAllowedMaxDynamicTableSize(size)
		for range 3 {
			if st := c.await(c.get("/version")); st.status != "200" || http.Header(st.header).Get("content-type") != "application/json" {
				t.Fatalf("with a table of %d bytes: %s", size, c.tell(st))
			}
		}
	}
}
