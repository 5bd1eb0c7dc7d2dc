package h2

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// greeting is how long a client may take until its settings are there.
	greeting = 10 * time.Second
	// farewell is how long a connection stays open after it has said that it ends: if it were closed while bytes arrive, the client's
	// system would throw away what it has not read yet.
	farewell = time.Second
	// maxRead is the largest frame that is accepted.
	maxRead = 32 << 10
	// tableSize is the size of the tables by which headers are compressed, in both directions.
	tableSize = 4 << 10
)

var errDisconnected = errors.New("client disconnected")

// conn is a connection. One goroutine reads (serve), each stream has one of its own, and whoever has something to write writes what
// all have.
type conn struct {
	server  *Server
	tls     *tls.Conn
	handler http.Handler
	ctx     context.Context
	state   *tls.ConnectionState
	remote  string
	framer  *http2.Framer // for reading only

	// stuck ends the connection when a write takes too long, and runs during writes only. A deadline would have to be lifted after each,
	// or it would break what crypto/tls writes by itself when a client asks for new keys.
	stuck *time.Timer

	greeted bool          // the client's settings were there; for who reads
	ended   chan struct{} // is closed when nobody reads any more

	mu      sync.Mutex // guards the rest, and what is said in stream
	streams map[uint32]*stream
	last    uint32 // the highest stream of the client
	// running is how many handlers are running, those of streams that were reset too; waiting are streams without one yet.
	running int
	waiting []*stream

	inflow    inflow
	outflow   outflow
	window    int32 // the client's, for each new stream
	frameSize int
	blocked   []*stream // wait for outflow or room, longest first
	unacked   int       // settings that the client has not acknowledged

	encoder *hpack.Encoder // writes to out

	out      *[]byte // waits to be written; nil: nothing
	writing  bool    // somebody writes, or is about to
	controls int     // bytes of out that are answers to frames

	fault   error // why the connection is of no more use; nil: it is
	leaving bool  // the client was told to send no more requests
	closing bool  // the connection is closed when everything is written

	idleSince time.Time
	idle      *time.Timer // nil: connections may be idle
}

func newConn(s *Server, tc *tls.Conn, handler http.Handler, ctx context.Context) *conn {
	state := tc.ConnectionState()
	c := &conn{
		server: s, tls: tc, handler: handler, ctx: ctx, state: &state, remote: tc.RemoteAddr().String(),
		streams: map[uint32]*stream{}, inflow: newInflow(s.ConnWindow), outflow: defaultWindow, window: defaultWindow, frameSize: most,
		idleSince: time.Now(), ended: make(chan struct{}),
	}
	c.stuck = time.AfterFunc(s.Stuck, func() { _ = tc.NetConn().Close() })
	c.stuck.Stop()
	c.encoder = hpack.NewEncoder(encoded{c})
	c.encoder.SetMaxDynamicTableSizeLimit(tableSize)
	c.framer = http2.NewFramer(nil, tc)
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(maxRead)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
	c.framer.MaxHeaderListSize = s.maxHeaders()
	return c
}

// maxHeaders is the size of a request's headers, as HTTP/2 counts it: with 32 bytes for each field.
func (s *Server) maxHeaders() uint32 {
	const fields, overhead = 10, 32
	n := s.http.MaxHeaderBytes
	if n <= 0 {
		n = http.DefaultMaxHeaderBytes
	}
	return uint32(n + fields*overhead)
}

// serve reads the connection until it ends.
func (c *conn) serve() {
	defer c.end()
	if reason := inadequate(c.state); reason != "" {
		c.fatal(http2.ErrCodeInadequateSecurity, reason)
		return
	}
	c.hello()
	if err := c.preface(); err != nil {
		return
	}
	c.watchIdle()
	for {
		f, err := c.framer.ReadFrame()
		if err == nil {
			err = c.process(f)
		}
		if err != nil && !c.tolerate(err) {
			return
		}
	}
}

// hello sends the settings of the server.
func (c *conn) hello() {
	c.mu.Lock()
	defer c.mu.Unlock()
	settings := []http2.Setting{
		{ID: http2.SettingMaxFrameSize, Val: maxRead},
		{ID: http2.SettingMaxConcurrentStreams, Val: c.server.MaxStreams},
		{ID: http2.SettingMaxHeaderListSize, Val: c.framer.MaxHeaderListSize},
		{ID: http2.SettingHeaderTableSize, Val: tableSize},
		{ID: http2.SettingInitialWindowSize, Val: uint32(c.server.StreamWindow)},
	}
	var payload []byte
	for _, s := range settings {
		payload = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(payload, uint16(s.ID)), s.Val)
	}
	c.unacked++
	c.frame(http2.FrameSettings, 0, 0, payload)
	if more := c.server.ConnWindow - defaultWindow; more > 0 {
		c.frame(http2.FrameWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, uint32(more)))
	}
	c.write()
}

// preface reads what a client of HTTP/2 begins with. Its settings must follow in the same time.
func (c *conn) preface() error {
	if err := c.tls.SetReadDeadline(time.Now().Add(greeting)); err != nil {
		return err
	}
	var got [len(http2.ClientPreface)]byte
	if _, err := io.ReadFull(c.tls, got[:]); err != nil {
		return err
	}
	if string(got[:]) != http2.ClientPreface {
		return errors.New("http2: bogus greeting")
	}
	return nil
}

// tolerate deals with an error of reading or of what was read. It says whether the connection goes on.
func (c *conn) tolerate(err error) bool {
	var ofStream http2.StreamError
	var ofConn http2.ConnectionError
	switch {
	case errors.As(err, &ofStream):
		c.mu.Lock()
		defer c.mu.Unlock()
		c.resetFor(ofStream)
		return true
	case errors.Is(err, http2.ErrFrameTooLarge):
		c.fatal(http2.ErrCodeFrameSize, "")
	case errors.As(err, &ofConn):
		c.fatal(http2.ErrCode(ofConn), "")
	}
	return false // in other cases the client is gone
}

// resetFor resets a stream for an error. c.mu is held.
func (c *conn) resetFor(err http2.StreamError) {
	c.reset(err.StreamID, err.Code)
	if st := c.streams[err.StreamID]; st != nil {
		cause := err.Cause
		if cause == nil {
			cause = errStreamClosed
		}
		c.remove(st, cause)
	}
}

// fatal ends the connection for a fault of the client, and tells it.
func (c *conn) fatal(code http2.ErrCode, why string) {
	c.mu.Lock()
	for _, st := range c.streams {
		c.remove(st, errDisconnected)
	}
	c.goAwayWith(code, why)
	c.writeSoon()
	c.mu.Unlock()
	if c.tls.SetReadDeadline(time.Now().Add(farewell)) == nil {
		_, _ = io.Copy(io.Discard, c.tls)
	}
}

// goAway tells the client to send no more requests. The connection is closed when those under way are answered.
func (c *conn) goAway() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave()
}

func (c *conn) leave() {
	if c.leaving {
		return
	}
	c.goAwayWith(http2.ErrCodeNo, "")
	c.writeSoon()
	c.closeIfDone()
}

func (c *conn) goAwayWith(code http2.ErrCode, why string) {
	c.leaving = true
	payload := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, c.last), uint32(code))
	c.frame(http2.FrameGoAway, 0, 0, append(payload, why...))
}

// closeIfDone closes the connection if it ends and everything is answered and written. c.mu is held.
func (c *conn) closeIfDone() {
	if c.leaving && len(c.streams) == 0 && c.out == nil && !c.writing && !c.closing {
		c.closing = true
		time.AfterFunc(farewell, c.close)
	}
}

// rests says that the connection has had nothing to send for as long as clients have to take what was sent.
func (c *conn) rests() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams) == 0 && c.out == nil && !c.writing && time.Since(c.idleSince) > farewell
}

// fail ends the connection, as nothing can be written any more. c.mu is held.
func (c *conn) fail(err error) {
	if c.fault != nil {
		return
	}
	c.fault = err
	c.out = nil
	for _, st := range c.streams {
		c.remove(st, err)
	}
	go c.close() // which wakes who reads
}

// end is the end of the connection: nobody reads any more.
func (c *conn) end() {
	c.mu.Lock()
	c.fail(errDisconnected)
	if c.idle != nil {
		c.idle.Stop()
	}
	c.mu.Unlock()
	c.close()
	close(c.ended)
}

func (c *conn) close() { _ = c.tls.Close() }

// watchIdle ends the connection when it had no requests for some time.
func (c *conn) watchIdle() {
	limit := c.server.http.IdleTimeout
	if limit <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = time.AfterFunc(limit, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		left := limit
		if len(c.streams) == 0 {
			left -= time.Since(c.idleSince)
		}
		if left > 0 {
			c.idle.Reset(left) // a timer that each request stops and starts would cost more
			return
		}
		c.leave()
	})
}
