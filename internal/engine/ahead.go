package engine

import (
	"io"
	"sync/atomic"
)

// aheadFrom is the size of an answer that is worth a goroutine more.
const aheadFrom = 1 << 20

// ahead writes in a goroutine of its own: a large list is encoded while what came before is encrypted and sent. It holds few buffers, however
// slow the client is.
type ahead struct {
	full     chan aheadPiece
	wrote    chan struct{} // after each piece that is the caller's
	done     chan struct{}
	failed   atomic.Pointer[error]
	panicked any // read after done
}

// aheadPiece is a buffer of gatherBuffers or, if that is nil, bytes of the caller, who waits.
type aheadPiece struct {
	buf   *[]byte
	bytes []byte
}

func newAhead(w io.Writer) *ahead {
	a := &ahead{full: make(chan aheadPiece, 2), wrote: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(a.done)
		for p := range a.full {
			if a.err() == nil {
				a.write(w, p)
			}
			if p.buf == nil {
				a.wrote <- struct{}{}
			}
		}
	}()
	return a
}

// write writes a piece and gives a buffer back. After an error nobody shall have it, as with gatherer.flush.
func (a *ahead) write(w io.Writer, p aheadPiece) {
	ended := false
	defer func() {
		if !ended {
			a.panicked = recover()
			a.failed.Store(&io.ErrClosedPipe)
		}
	}()
	if p.buf != nil {
		p.bytes = *p.buf
	}
	_, err := w.Write(p.bytes)
	ended = true
	switch {
	case err != nil:
		a.failed.Store(&err)
	case p.buf != nil:
		*p.buf = (*p.buf)[:0]
		gatherBuffers.Put(p.buf)
	}
}

func (a *ahead) err() error {
	if err := a.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// pass has a buffer written, which belongs to ahead from now on. The error is that of what came before.
func (a *ahead) pass(b *[]byte) error {
	if err := a.err(); err != nil {
		return err
	}
	a.full <- aheadPiece{buf: b}
	return nil
}

// whole writes bytes of the caller after all that came before, and waits for that: there is no copy of them.
func (a *ahead) whole(b []byte) error {
	a.full <- aheadPiece{bytes: b}
	<-a.wrote
	return a.err()
}

// end waits until all is written. A panic of the writer goes on here.
func (a *ahead) end() error {
	close(a.full)
	<-a.done
	if a.panicked != nil {
		panic(a.panicked)
	}
	return a.err()
}
