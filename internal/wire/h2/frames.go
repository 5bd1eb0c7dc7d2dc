package h2

import (
	"fmt"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
)

func connError(code http2.ErrCode) error { return http2.ConnectionError(code) }

func streamError(id uint32, code http2.ErrCode) error {
	return http2.StreamError{StreamID: id, Code: code}
}

// process does what a frame says.
func (c *conn) process(f http2.Frame) error {
	if !c.greeted {
		if _, ok := f.(*http2.SettingsFrame); !ok {
			return connError(http2.ErrCodeProtocol)
		}
		c.greeted = true
		if err := c.tls.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault != nil {
		return c.fault // nothing could be answered
	}
	if c.leaving && f.Header().StreamID > c.last {
		// A request that was sent before the client knew: it will send it elsewhere. But its headers were decoded, and its data counts.
		if data, ok := f.(*http2.DataFrame); ok {
			return c.discard(data)
		}
		return nil
	}
	switch f := f.(type) {
	case *http2.SettingsFrame:
		return c.settings(f)
	case *http2.MetaHeadersFrame:
		return c.headers(f)
	case *http2.DataFrame:
		return c.received(f)
	case *http2.WindowUpdateFrame:
		return c.windowGrows(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			c.control(http2.FramePing, http2.FlagPingAck, 0, f.Data[:])
		}
		return nil
	case *http2.RSTStreamFrame:
		return c.resetByClient(f)
	case *http2.PriorityFrame:
		return dependency(f.StreamID, f.PriorityParam)
	case *http2.GoAwayFrame:
		c.leave()
		return nil
	case *http2.PushPromiseFrame:
		return connError(http2.ErrCodeProtocol)
	}
	return nil // frames of a kind that is not known are ignored (RFC 9113, section 4.1)
}

// idleStream says whether a stream has not begun yet.
func (c *conn) idleStream(id uint32) bool { return id%2 == 0 || id > c.last }

func (c *conn) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		if c.unacked--; c.unacked < 0 {
			return connError(http2.ErrCodeProtocol)
		}
		return nil
	}
	// As in net/http; nothing that means well sends such settings.
	if f.NumSettings() > 100 || f.HasDuplicates() {
		return connError(http2.ErrCodeProtocol)
	}
	if err := f.ForeachSetting(c.setting); err != nil {
		return err
	}
	c.control(http2.FrameSettings, http2.FlagSettingsAck, 0, nil)
	return nil
}

func (c *conn) setting(s http2.Setting) error {
	if err := s.Valid(); err != nil {
		return err
	}
	switch s.ID {
	case http2.SettingHeaderTableSize:
		c.encoder.SetMaxDynamicTableSize(s.Val)
	case http2.SettingInitialWindowSize:
		growth := int32(s.Val) - c.window // may be negative
		c.window = int32(s.Val)
		for _, st := range c.streams {
			if !st.outflow.add(growth) {
				return connError(http2.ErrCodeFlowControl)
			}
			st.wakeUp()
		}
	case http2.SettingMaxFrameSize:
		c.frameSize = min(int(s.Val), most)
	}
	return nil
}

func (c *conn) windowGrows(f *http2.WindowUpdateFrame) error {
	if f.StreamID == 0 {
		if !c.outflow.add(int32(f.Increment)) {
			return connError(http2.ErrCodeFlowControl)
		}
		c.next()
		return nil
	}
	if c.idleStream(f.StreamID) {
		return connError(http2.ErrCodeProtocol)
	}
	st := c.streams[f.StreamID]
	if st == nil {
		return nil // it has ended meanwhile
	}
	if !st.outflow.add(int32(f.Increment)) {
		return streamError(f.StreamID, http2.ErrCodeFlowControl)
	}
	st.wakeUp()
	return nil
}

func (c *conn) resetByClient(f *http2.RSTStreamFrame) error {
	if c.idleStream(f.StreamID) {
		return connError(http2.ErrCodeProtocol)
	}
	if st := c.streams[f.StreamID]; st != nil {
		c.remove(st, errStreamClosed)
	}
	return nil
}

// dependency checks the priority of a stream, which has no other effect.
func dependency(id uint32, p http2.PriorityParam) error {
	if id == p.StreamDep {
		return streamError(id, http2.ErrCodeProtocol)
	}
	return nil
}

// received takes a part of a request's body.
func (c *conn) received(f *http2.DataFrame) error {
	id := f.StreamID
	if c.idleStream(id) {
		return connError(http2.ErrCodeProtocol)
	}
	st := c.streams[id]
	if st == nil || st.ended || st.gotTrailers {
		if err := c.discard(f); err != nil {
			return err
		}
		return streamError(id, http2.ErrCodeStreamClosed)
	}
	data := f.Data()
	if st.declared >= 0 && st.got+int64(len(data)) > st.declared {
		if err := c.discard(f); err != nil {
			return err
		}
		st.body.end(fmt.Errorf("sender tried to send more than declared Content-Length of %d bytes", st.declared))
		return streamError(id, http2.ErrCodeProtocol)
	}
	if !c.inflow.take(f.Length) {
		return streamError(id, http2.ErrCodeFlowControl)
	}
	if !st.inflow.take(f.Length) {
		c.refund(nil, int(f.Length))
		return streamError(id, http2.ErrCodeFlowControl)
	}
	st.got += int64(len(data))
	if st.body.put(data) {
		st.unread += len(data)
	} else {
		c.refund(nil, len(data)) // the handler has closed the body
	}
	c.refund(st, int(f.Length)-len(data)) // padding
	if f.StreamEnded() {
		st.end()
	}
	return nil
}

// discard takes data that nobody is going to read.
func (c *conn) discard(f *http2.DataFrame) error {
	if !c.inflow.take(f.Length) {
		return streamError(f.StreamID, http2.ErrCodeFlowControl)
	}
	c.refund(nil, int(f.Length))
	return nil
}

// headers begins a stream, or ends it with trailers.
func (c *conn) headers(f *http2.MetaHeadersFrame) error {
	id := f.StreamID
	if id%2 == 0 {
		return connError(http2.ErrCodeProtocol)
	}
	if st := c.streams[id]; st != nil {
		if st.ended {
			return streamError(id, http2.ErrCodeStreamClosed)
		}
		return c.trailers(st, f)
	}
	if id <= c.last {
		return connError(http2.ErrCodeProtocol)
	}
	c.last = id
	if uint32(len(c.streams)) >= c.server.MaxStreams {
		if c.unacked == 0 {
			return streamError(id, http2.ErrCodeProtocol)
		}
		return streamError(id, http2.ErrCodeRefusedStream)
	}
	if f.HasPriority() {
		if err := dependency(id, f.Priority); err != nil {
			return err
		}
	}
	st, err := c.newStream(f)
	if err != nil {
		return err
	}
	return c.start(st)
}

func (c *conn) trailers(st *stream, f *http2.MetaHeadersFrame) error {
	if st.gotTrailers {
		return connError(http2.ErrCodeProtocol)
	}
	st.gotTrailers = true
	if !f.StreamEnded() || len(f.PseudoFields()) > 0 {
		return streamError(st.id, http2.ErrCodeProtocol)
	}
	for _, field := range f.RegularFields() {
		key := canonical(field.Name)
		if !httpguts.ValidTrailerHeader(key) {
			return streamError(st.id, http2.ErrCodeProtocol)
		}
		st.body.trailer(key, field.Value)
	}
	st.end()
	return nil
}
