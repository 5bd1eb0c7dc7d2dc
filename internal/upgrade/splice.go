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

// Splice joins two connections: each gets what the other sends, and the end of it. It returns, with both closed, when
// both directions have ended, when one has ended and nothing moves in the other, when a connection fails, or when ctx
// ends. bytesPerSecond bounds each direction; zero does not.
func Splice(ctx context.Context, a, b net.Conn, bytesPerSecond int64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	closeBoth := func() {
		_ = a.Close()
		_ = b.Close()
	}
	defer closeBoth()
	defer context.AfterFunc(ctx, closeBoth)()

	s := &splice{ended: new(atomic.Bool), limit: bytesPerSecond, fail: cancel}
	var other sync.WaitGroup
	other.Go(func() { s.move(ctx, b, a) })
	s.move(ctx, a, b)
	other.Wait()
}

type splice struct {
	ended *atomic.Bool // one direction has
	limit int64
	fail  func()
}

// move copies from one connection to the other until the end.
func (s *splice) move(ctx context.Context, to, from net.Conn) {
	err := Copy(&Throttle{Writer: to, Limit: NewLimit(s.limit), Context: ctx}, from, func() {
		if s.ended.Load() {
			_ = from.SetReadDeadline(time.Now().Add(linger))
		}
	})
	if err != nil || s.ended.Swap(true) || closeWrite(to) != nil {
		s.fail()
		return
	}
	_ = to.SetReadDeadline(time.Now().Add(linger)) // the other direction may wait already
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
