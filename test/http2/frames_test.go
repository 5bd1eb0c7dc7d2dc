package http2_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// This file has what a client does with the frames that come.

// until reads until something holds, and fails the test where it does not in time, or the connection ends before.
func (c *client) until(what string, holds func() bool) {
	c.t.Helper()
	end := time.Now().Add(patience)
	for !holds() {
		if c.ended != nil || !c.step(end) && !holds() {
			c.t.Fatalf("%s did not come: %v, %s", what, c.ended, c.tell(nil))
		}
	}
}

// await reads until a stream is over, or the connection ends.
func (c *client) await(st *stream) *stream {
	c.t.Helper()
	c.until("the end of a stream", func() bool { return st.over() || c.ended != nil || c.refused() })
	return st
}

// over tells whether nothing more can come for a stream.
func (st *stream) over() bool { return st.ended || st.reset != nil || st.given }

// refused tells whether the server has ended the connection for what the client did.
func (c *client) refused() bool { return c.goAway != nil && *c.goAway != http2.ErrCodeNo }

// awaitEnd reads until the server ends the connection, and tells whether it did.
func (c *client) awaitEnd() bool {
	for end := time.Now().Add(patience); c.ended == nil && c.step(end); {
	}
	return c.ended != nil && !timedOut(c.ended)
}

// pong waits until the server has read all that was sent.
func (c *client) pong() {
	c.t.Helper()
	n := c.pongs
	must(c.t, c.WritePing(false, [8]byte{1}))
	c.flush()
	c.until("the acknowledgement of a PING", func() bool { return c.pongs > n })
}

// tell says what came, for a message.
func (c *client) tell(st *stream) string {
	var said []string
	if st != nil {
		said = append(said, fmt.Sprintf("interim %q, status %q, %d bytes %.200q, ended %v", st.interim, st.status, st.received, st.body, st.ended))
		if st.reset != nil {
			said = append(said, "RST_STREAM "+st.reset.String())
		}
	}
	if c.goAway != nil {
		said = append(said, "GOAWAY "+c.goAway.String())
	}
	if c.ended != nil {
		said = append(said, "the connection ended: "+c.ended.Error())
	}
	return strings.Join(said, ", ")
}

// step reads one frame, and tells whether there was one.
func (c *client) step(end time.Time) bool {
	_ = c.conn.SetReadDeadline(end)
	f, err := c.ReadFrame()
	if err != nil {
		var framing http2.ConnectionError
		if errors.As(err, &framing) || errors.Is(err, http2.ErrFrameTooLarge) {
			c.t.Errorf("a frame that the server may not send: %v, %v", err, c.ErrorDetail())
		}
		c.ended = err
		return false
	}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		c.fields(f)
	case *http2.DataFrame:
		c.data(f)
	case *http2.RSTStreamFrame:
		code := f.ErrCode
		c.stream(f).reset = &code
	case *http2.GoAwayFrame:
		code := f.ErrCode
		c.goAway = &code
	case *http2.SettingsFrame:
		c.applies(f)
	case *http2.PingFrame:
		if f.IsAck() {
			c.pongs++
		} else {
			must(c.t, c.WritePing(true, f.Data))
			c.flush()
		}
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			c.maySend += int64(f.Increment)
		} else {
			c.stream(f).maySend += int64(f.Increment)
		}
	}
	return true
}

// stream finds the stream of a frame. A frame of a stream that the client did not open is an error of the server.
func (c *client) stream(f http2.Frame) *stream {
	id := f.Header().StreamID
	st := c.streams[id]
	if st == nil {
		c.t.Errorf("a frame of a stream that was not opened: %v", f.Header())
		return &stream{id: id}
	}
	return st
}

// fields takes HEADERS of an interim answer, of an answer, or the trailers of one.
func (c *client) fields(f *http2.MetaHeadersFrame) {
	st := c.stream(f)
	if st.ended {
		c.t.Errorf("HEADERS after the end of stream %d", st.id)
	}
	status := f.PseudoValue("status")
	switch {
	case strings.HasPrefix(status, "1"):
		st.interim = append(st.interim, status)
	case st.status == "":
		st.status, st.header = status, map[string][]string{}
		for _, h := range f.RegularFields() {
			st.header.Add(h.Name, h.Value)
			switch h.Name {
			case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade": // RFC 9113, 8.2.2
				c.t.Errorf("an answer has the field %s", h.Name)
			}
		}
	}
	st.ended = st.ended || f.StreamEnded()
}

// data takes DATA, and accounts for it.
func (c *client) data(f *http2.DataFrame) {
	st := c.stream(f)
	if st.ended || st.status == "" {
		c.t.Errorf("DATA of stream %d after its end, or before its status", st.id)
	}
	n := int64(f.Length)
	c.mayReceive -= n
	st.mayReceive -= n
	if n > 0 && (c.mayReceive < 0 || st.mayReceive < 0) { // RFC 9113, 6.9.1
		c.t.Errorf("DATA of %d bytes exceeds the windows: %d and %d are left of the connection's and the stream's", n, c.mayReceive, st.mayReceive)
	}
	st.received += len(f.Data())
	if !c.discards {
		st.body = append(st.body, f.Data()...)
	}
	st.ended = st.ended || f.StreamEnded()
	if c.grants && n > 0 {
		c.grant(nil, uint32(n))
		if !st.over() {
			c.grant(st, uint32(n))
		}
		c.flush()
	}
}

// grant lets the server send more, on a stream or on the connection.
func (c *client) grant(st *stream, n uint32) {
	if st == nil {
		c.mayReceive += int64(n)
		must(c.t, c.WriteWindowUpdate(0, n))
		return
	}
	st.mayReceive += int64(n)
	must(c.t, c.WriteWindowUpdate(st.id, n))
}

// applies takes settings of the server, or its acknowledgement of the client's.
func (c *client) applies(f *http2.SettingsFrame) {
	if f.IsAck() {
		c.acks++
		for id, delta := range c.lowered[0] {
			c.streams[id].mayReceive += delta
		}
		c.lowered = c.lowered[1:]
		return
	}
	must(c.t, f.ForeachSetting(func(v http2.Setting) error {
		c.settings[v.ID] = v.Val
		return nil
	}))
	must(c.t, c.WriteSettingsAck())
	c.flush()
}

// drained tells what a client saw that reads all that comes and forgets it.
type drained struct {
	end  chan string   // the error of the GOAWAY that came, once the connection has ended
	pong chan struct{} // the PING that last sends was acknowledged
}

// last is the PING after a flood.
var last = [8]byte{'t', 'h', 'e', ' ', 'l', 'a', 's', 't'}

// drain reads all that comes, beside what the client sends.
func (c *client) drain() *drained {
	d := &drained{make(chan string, 1), make(chan struct{}, 1)}
	_ = c.conn.SetReadDeadline(time.Time{})
	go func() {
		code := "no GOAWAY"
		for {
			f, err := c.ReadFrame()
			if err != nil {
				d.end <- code
				return
			}
			switch f := f.(type) {
			case *http2.GoAwayFrame:
				code = "GOAWAY " + f.ErrCode.String()
			case *http2.PingFrame:
				if f.IsAck() && f.Data == last {
					d.pong <- struct{}{}
				}
			}
		}
	}()
	return d
}

func timedOut(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}
