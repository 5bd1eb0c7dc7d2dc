package chain

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"
)

// progress ends a watch whose client does not read. The watch has no deadline, but each write of a piece has one.
type progress struct {
	control *http.ResponseController
	limit   time.Duration // for a piece
	timer   *time.Timer   // runs while something is written

	mu      sync.Mutex
	writing bool // guarded by mu
}

// piece is the number of bytes that a client must read within the limit. It is small, so that slow clients keep up.
const piece = 64 << 10

func newProgress(w http.ResponseWriter, limit time.Duration) *progress {
	p := &progress{control: http.NewResponseController(w), limit: limit}
	p.timer = time.AfterFunc(limit, p.stalled)
	p.timer.Stop()
	return p
}

// stalled interrupts a write that takes too long, and reads as well: in HTTP/1.1 the first write waits until the body that
// the client has announced is read.
func (p *progress) stalled() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writing {
		_ = p.control.SetReadDeadline(past) // not supported in process
		_ = p.control.SetWriteDeadline(past)
	}
}

// during runs write, and interrupts it if it takes too long. A timer is cheaper than a deadline per write, which HTTP/2
// would pass through the goroutine that serves the connection.
func (p *progress) during(write func() error) error {
	p.set(true)
	p.timer.Reset(p.limit)
	defer func() {
		p.timer.Stop()
		p.set(false)
	}()
	return write()
}

func (p *progress) set(writing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writing = writing
}

// write writes data piece by piece.
func (p *progress) write(w http.ResponseWriter, data []byte) (n int, err error) {
	for first := true; first || n < len(data) && err == nil; first = false {
		err = p.during(func() error {
			m, err := w.Write(data[n:min(n+piece, len(data))])
			n += m
			return err
		})
	}
	return n, err
}

// hijacked returns the connection of a watch over a websocket, with the same limit for each write. No other request uses
// the connection, so deadlines cost little here.
func (p *progress) hijacked(conn net.Conn, buffer *bufio.ReadWriter) (net.Conn, *bufio.ReadWriter) {
	limited := &limitedConn{conn, p.limit}
	return limited, bufio.NewReadWriter(buffer.Reader, bufio.NewWriter(limited))
}

// limitedConn is a connection whose writes have a limit of time each.
type limitedConn struct {
	net.Conn
	limit time.Duration
}

// Write is part of net.Conn.
func (c *limitedConn) Write(data []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(data)
}
