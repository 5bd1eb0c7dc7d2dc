package engine

import (
	"context"
	"io"
	"sync"
)

// gatherer makes few writes of many small pieces. Large pieces go out as they
// are, so that a client that does not read keeps one buffer and no copies.
type gatherer struct {
	w   io.Writer
	buf *[]byte // of gatherBuffers; nil while nothing is gathered
	err error   // the client is gone
}

var gatherBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 32<<10)
	return &b
}}

func (g *gatherer) write(p []byte) {
	if g.buf == nil {
		g.buf = gatherBuffers.Get().(*[]byte)
	}
	b := *g.buf
	if len(b)+len(p) > cap(b) {
		g.send(b)
		b = b[:0]
		if len(p) > cap(b)/2 {
			g.send(p)
			p = nil
		}
	}
	*g.buf = append(b, p...)
}

func (g *gatherer) send(p []byte) {
	if g.err == nil && len(p) > 0 {
		_, g.err = g.w.Write(p)
	}
}

// flush writes what is gathered, and gives the buffer back.
func (g *gatherer) flush() {
	if g.buf == nil {
		return
	}
	g.send(*g.buf)
	*g.buf = (*g.buf)[:0]
	gatherBuffers.Put(g.buf)
	g.buf = nil
}

// lookEvery is how many items of a loop pass between two looks at its context:
// few enough to end soon, and so many that looking costs nothing.
const lookEvery = 16

// ended says of the n-th item of a loop whether to go on: not if ctx has ended.
func ended(ctx context.Context, n int) error {
	if n%lookEvery != 0 {
		return nil
	}
	return ctx.Err()
}
