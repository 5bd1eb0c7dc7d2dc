package upgrade

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// linger is how long one direction may move nothing after the other has ended. An end looks the same whether the other
// side has closed half of its connection or is gone, and only the second must not last.
const linger = 10 * time.Second

const (
	// idleBuffer is what each direction holds while nothing moves: there may be thousands of idle streams.
	idleBuffer = 1 << 10
	// busyBuffer is taken from a pool while much moves. It has the size of the largest TLS record.
	busyBuffer = 16 << 10
)

// Splice joins a client's connection with a backend's: each gets what the other sends, and the end of it. It returns,
// with both closed, when both directions have ended, when one has ended and nothing moves in the other, when the client
// fails, or when ctx ends. A backend that takes no more does not end it: what the backend has said before is still to be
// told. bytesPerSecond bounds each direction; zero does not.
func Splice(ctx context.Context, client, backend net.Conn, bytesPerSecond int64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	closeBoth := func() {
		_ = client.Close()
		_ = backend.Close()
	}
	defer closeBoth()
	defer context.AfterFunc(ctx, closeBoth)()

	s := &splice{client: client, backend: backend, limit: bytesPerSecond, fail: cancel}
	var up sync.WaitGroup
	up.Go(func() { s.up(ctx) })
	s.down(ctx)
	up.Wait()
}

type splice struct {
	client, backend net.Conn
	limit           int64
	fail            func()
	ended           atomic.Bool // one direction has
}

// up copies from the client to the backend.
func (s *splice) up(ctx context.Context) {
	to := &sink{Writer: &Throttle{Writer: s.backend, Limit: NewLimit(s.limit), Context: ctx}}
	err := Copy(to, s.client, func() { s.linger(s.client) })
	switch {
	case to.failed:
		// A connection that is closed with data unread is reset, and the client would lose what it has not read.
		_ = Copy(io.Discard, s.client, func() {})
	case err != nil:
		s.fail()
	default:
		_ = closeWrite(s.backend)
	}
	s.end(s.backend)
}

// down copies from the backend to the client. A backend that fails has ended.
func (s *splice) down(ctx context.Context) {
	to := &sink{Writer: &Throttle{Writer: s.client, Limit: NewLimit(s.limit), Context: ctx}}
	_ = Copy(to, s.backend, func() { s.linger(s.backend) })
	if to.failed || closeWrite(s.client) != nil {
		s.fail()
	}
	s.end(s.client)
}

// linger bounds the next read if the other direction has ended.
func (s *splice) linger(from net.Conn) {
	if s.ended.Load() {
		_ = from.SetReadDeadline(time.Now().Add(linger))
	}
}

// end is called when one direction has ended. The other may be waiting already.
func (s *splice) end(other net.Conn) {
	s.ended.Store(true)
	_ = other.SetReadDeadline(time.Now().Add(linger))
}

// sink remembers that it failed.
type sink struct {
	io.Writer
	failed bool
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.Writer.Write(p)
	s.failed = err != nil
	return n, err
}

// buffers are shared by all connections of the process, and hold no state.
var buffers = sync.Pool{New: func() any { return new([busyBuffer]byte) }}

// Copy copies to the end of from. It holds a large buffer only while much comes. before is called before each read.
func Copy(to io.Writer, from io.Reader, before func()) error {
	small := make([]byte, idleBuffer)
	for {
		n, err := copyOnce(to, from, small, before)
		if n == len(small) && err == nil {
			err = copyBusy(to, from, before)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// copyBusy copies with a large buffer until little comes.
func copyBusy(to io.Writer, from io.Reader, before func()) error {
	large := buffers.Get().(*[busyBuffer]byte)
	defer buffers.Put(large)
	for {
		n, err := copyOnce(to, from, large[:], before)
		if err != nil || n < idleBuffer {
			return err
		}
	}
}

func copyOnce(to io.Writer, from io.Reader, buffer []byte, before func()) (int, error) {
	before()
	n, err := from.Read(buffer)
	if n > 0 {
		if _, werr := to.Write(buffer[:n]); werr != nil {
			return n, werr
		}
	}
	return n, err
}

// NewLimit returns a limit of bytes per second; nil for none.
func NewLimit(bytesPerSecond int64) *rate.Limiter {
	if bytesPerSecond <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(bytesPerSecond), int(min(bytesPerSecond, 1<<30)))
}

// Throttle is a writer that waits as a limit demands. A nil Limit demands nothing.
type Throttle struct {
	io.Writer
	Limit   *rate.Limiter
	Context context.Context //nolint:containedctx // of one copy
}

func (t *Throttle) Write(p []byte) (n int, err error) {
	if t.Limit == nil {
		return t.Writer.Write(p)
	}
	for n < len(p) && err == nil {
		piece := p[n:min(len(p), n+t.Limit.Burst())]
		if err = t.Limit.WaitN(t.Context, len(piece)); err != nil {
			return n, err
		}
		var m int
		m, err = t.Writer.Write(piece)
		n += m
	}
	return n, err
}
