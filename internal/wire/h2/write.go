package h2

import (
	"encoding/binary"
	"errors"
	"runtime"
	"sync"

	"golang.org/x/net/http2"
)

const (
	// high is how many bytes may wait to be written before streams wait.
	high = 64 << 10
	// maxControls is how many bytes of answers to frames (acknowledgements, resets, updates of windows) may wait. A client that causes
	// more and does not read them means no good.
	maxControls = 128 << 10
	// headerSize is the size of a frame's header.
	headerSize = 9
	// most is the largest frame that is written, whatever the client accepts, so that streams take turns.
	most = 16 << 10
)

var errFlood = errors.New("http2: too many control frames in send queue")

// buffers are what waits to be written: most connections have nothing that does.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// recycle gives a buffer back, unless it has become too large to be kept.
func recycle(b *[]byte) {
	if cap(*b) <= 2*high {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// appendHeader appends the header of a frame.
func appendHeader(out []byte, size int, kind http2.FrameType, flags http2.Flags, stream uint32) []byte {
	out = append(out, 0, 0, 0, byte(kind), byte(flags))
	setSize(out[len(out)-5:], size)
	return binary.BigEndian.AppendUint32(out, stream)
}

// setSize sets the size in the header of a frame.
func setSize(frame []byte, size int) {
	frame[0], frame[1], frame[2] = byte(size>>16), byte(size>>8), byte(size)
}

// frame queues a frame. c.mu is held.
func (c *conn) frame(kind http2.FrameType, flags http2.Flags, stream uint32, payload []byte) {
	if c.fault != nil {
		return
	}
	c.queue()
	*c.out = appendHeader(*c.out, len(payload), kind, flags, stream)
	*c.out = append(*c.out, payload...)
}

// queue sees to it that there is a buffer for what waits to be written.
func (c *conn) queue() {
	if c.out == nil {
		c.out = buffers.Get().(*[]byte)
	}
}

// roomy says whether more may wait to be written.
func (c *conn) roomy() bool { return c.out == nil || len(*c.out) < high }

// control queues a frame that is no part of an answer, and has it written by a goroutine of its own, as who reads must not wait for a client
// that does not. c.mu is held.
func (c *conn) control(kind http2.FrameType, flags http2.Flags, stream uint32, payload []byte) {
	c.controls += headerSize + len(payload)
	if c.controls > maxControls {
		c.fail(errFlood)
		return
	}
	c.frame(kind, flags, stream, payload)
	c.writeSoon()
}

func (c *conn) windowUpdate(stream, n uint32) {
	c.control(http2.FrameWindowUpdate, 0, stream, binary.BigEndian.AppendUint32(nil, n))
}

func (c *conn) reset(stream uint32, code http2.ErrCode) {
	c.control(http2.FrameRSTStream, 0, stream, binary.BigEndian.AppendUint32(nil, uint32(code)))
}

// writeSoon has what waits written by somebody else. c.mu is held.
func (c *conn) writeSoon() {
	if !c.writing && c.out != nil {
		c.writing = true
		go func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.drain(-1)
		}()
	}
}

// writeAll is write for a stream that has more to come, as watches have. Others on the connection often have the same event to tell, and
// what they queue meanwhile is written along with it.
func (c *conn) writeAll() {
	if len(c.streams) > 1 && !c.writing && c.out != nil {
		c.writing = true
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
		c.drain(2)
		return
	}
	c.write()
}

// write writes what waits, unless somebody is about to, who then writes this too. c.mu is held, and released meanwhile.
func (c *conn) write() {
	if !c.writing && c.out != nil {
		c.writing = true
		c.drain(2)
	}
}

// drain writes what waits until there is nothing. After some rounds it leaves the rest to a goroutine of its own, so that no stream works
// for the others; rounds -1: it does not. c.mu is held, and released during writes; c.writing is set.
func (c *conn) drain(rounds int) {
	for ; c.out != nil && c.fault == nil; rounds-- {
		if rounds == 0 {
			c.writing = false
			c.writeSoon()
			return
		}
		out := c.out
		c.out, c.controls = nil, 0
		c.mu.Unlock()
		err := c.send(*out)
		c.mu.Lock()
		recycle(out)
		if err != nil {
			c.fail(err)
		}
		c.next()
	}
	c.writing = false
	c.closeIfDone()
}

// send writes bytes to the client. Only one goroutine at a time does.
func (c *conn) send(data []byte) error {
	for len(data) > 0 {
		c.stuck.Reset(c.server.Stuck)
		n, err := c.tls.Write(data[:min(len(data), most)])
		c.stuck.Stop()
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// data queues a part of a stream's body, waiting for windows and room. last: the stream ends with it. The error says why the stream
// has ended before. c.mu is held, and released while it waits.
func (c *conn) data(st *stream, p []byte, last bool) error {
	for len(p) > 0 || last {
		n := c.sendable(st, len(p))
		switch {
		case st.gone:
			c.next()
			return st.cause
		case c.roomy() && (n > 0 || len(p) == 0):
		case c.out != nil && !c.writing:
			c.write() // what waits may be what the client waits for
			continue
		default:
			c.await(st, len(p) > 0 && st.outflow <= 0)
			continue
		}
		var flags http2.Flags
		if last && n == len(p) {
			flags = http2.FlagDataEndStream
		}
		st.outflow -= outflow(n)
		c.outflow -= outflow(n)
		c.frame(http2.FrameData, flags, st.id, p[:n])
		if p = p[n:]; len(p) == 0 {
			break
		}
	}
	if last {
		c.answered(st)
	}
	c.next()
	return nil
}
