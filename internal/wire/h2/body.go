package h2

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

var errBodyClosed = errors.New("body closed by handler")

// body is the body of a request: bytes that have arrived and that the handler has not read. They are as many as the window of the stream at
// most.
type body struct {
	st      *stream
	expects bool // the client waits to be told to send it (100-continue); for Read only

	mu       sync.Mutex
	more     sync.Cond   // of mu: something has changed
	data     []byte      // arrived; guarded by mu
	read     int         // bytes of data that were read; guarded by mu
	err      error       // what follows data; nil: more; guarded by mu
	trailers http.Header // guarded by mu
}

func newBody(st *stream) *body {
	b := &body{st: st}
	b.more.L = &b.mu
	return b
}

// put appends what has arrived. It says whether somebody is going to read it.
func (b *body) put(data []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return false
	}
	switch {
	case b.data == nil:
		// Most bodies arrive in one or two frames, and say how long they are.
		size := int64(len(data))
		if declared := b.st.declared; declared > size && declared <= int64(b.st.c.server.StreamWindow) {
			size = declared
		}
		b.data = make([]byte, 0, size)
	case b.read > 0 && len(b.data)+len(data) > cap(b.data):
		b.data = b.data[:copy(b.data, b.data[b.read:])]
		b.read = 0
	}
	b.data = append(b.data, data...)
	b.more.Signal()
	return true
}

// trailer notes a trailer. The handler gets it if the request has announced it.
func (b *body) trailer(key, value string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.trailers == nil {
		b.trailers = http.Header{}
	}
	b.trailers[key] = append(b.trailers[key], value)
}

// end says that no more arrives: err is io.EOF, or why it is not whole. What has arrived can be read.
func (b *body) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
	b.more.Broadcast()
}

// expire is the end of the time that the handler has for reading.
func (b *body) expire() { b.end(fmt.Errorf("%w", os.ErrDeadlineExceeded)) }

// Read is part of io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.expects {
		b.expects = false
		b.st.proceed()
	}
	n, err := b.take(p)
	if n > 0 {
		b.st.c.wasRead(b.st, b.st, n)
	}
	return n, err
}

func (b *body) take(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.read == len(b.data) && b.err == nil {
		b.more.Wait()
	}
	if b.read == len(b.data) {
		if errors.Is(b.err, io.EOF) {
			b.announce()
		}
		return 0, b.err
	}
	n := copy(p, b.data[b.read:])
	if b.read += n; b.read == len(b.data) {
		b.read, b.data = 0, b.data[:0]
	}
	return n, nil
}

// announce gives the handler the trailers, of which it knows when it has read the end of the body.
func (b *body) announce() {
	announced := b.st.request.Trailer
	for key, values := range b.trailers {
		if _, ok := announced[key]; ok {
			announced[key] = values
		}
	}
	b.trailers = nil
}

// Close is part of io.Closer: what has arrived and what still arrives is thrown away.
func (b *body) Close() error {
	b.mu.Lock()
	unread := len(b.data) - b.read
	b.data, b.read = nil, 0
	b.err = errBodyClosed
	b.more.Broadcast()
	b.mu.Unlock()
	b.st.c.wasRead(nil, b.st, unread)
	return nil
}

// wasRead notes that n bytes of a body were read, or thrown away. The client may send as many more on the connection, and on that stream.
func (c *conn) wasRead(more, st *stream, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !st.gone { // otherwise the connection has got back everything
		st.unread -= n
		c.refund(more, n)
	}
}
