package engine

import (
	"cmp"
	"context"
	"io"
	"sync"
)

// gatherer combines many small pieces into few writes. Large pieces are written
// directly, so that a client that does not read holds one buffer (with ahead, four) and no copies.
type gatherer struct {
	w   io.Writer
	buf *[]byte // from gatherBuffers; nil while empty
	err error   // set when the client is gone
	// ahead writes while more is gathered; nil: that waits. Then end is to be called.
	ahead *ahead
}

// gatherBytes is the size of the buffers.
const gatherBytes = 32 << 10

var gatherBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, gatherBytes)
	return &b
}}

func (g *gatherer) write(p []byte) {
	if g.buf == nil {
		g.buf = gatherBuffers.Get().(*[]byte)
	}
	b := *g.buf
	if len(b)+len(p) > cap(b) {
		b = g.pass()
		if len(p) > cap(b)/2 {
			g.send(p)
			p = nil
		}
	}
	*g.buf = append(b, p...)
}

// pass writes the buffer, and returns an empty one.
func (g *gatherer) pass() []byte {
	if g.ahead == nil || g.err != nil {
		g.send(*g.buf)
		return (*g.buf)[:0]
	}
	g.err = g.ahead.pass(g.buf)
	g.buf = gatherBuffers.Get().(*[]byte)
	return *g.buf
}

func (g *gatherer) send(p []byte) {
	switch {
	case g.err != nil || len(p) == 0:
	case g.ahead != nil:
		g.err = g.ahead.whole(p)
	default:
		_, g.err = g.w.Write(p)
	}
}

// flush writes the buffer and gives it back. After an error nobody shall have it: net/http may still be sending it, and what
// another request writes into it would be sent to this one's client.
func (g *gatherer) flush() {
	if g.buf == nil {
		return
	}
	if g.ahead != nil && g.err == nil {
		g.err = g.ahead.pass(g.buf)
		g.buf = nil
		return
	}
	g.send(*g.buf)
	if g.err == nil {
		*g.buf = (*g.buf)[:0]
		gatherBuffers.Put(g.buf)
	}
	g.buf = nil
}

// end waits until all that was gathered is written. It may be called again.
func (g *gatherer) end() {
	if a := g.ahead; a != nil {
		g.ahead = nil
		g.err = cmp.Or(a.end(), g.err)
	}
}

// lookEvery is how many items a loop handles between two checks of its context:
// few enough to end soon, and enough that the check costs nothing.
const lookEvery = 16

// ended returns the error of ctx if it has ended. It checks only for every
// lookEvery-th item of a loop.
func ended(ctx context.Context, n int) error {
	if n%lookEvery != 0 {
		return nil
	}
	return ctx.Err()
}
