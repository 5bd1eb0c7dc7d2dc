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
	full     chan *[]byte
	done     chan struct{}
	failed   atomic.Pointer[error]
	panicked any // read after done
}

func newAhead(w io.Writer) *ahead {
	a := &ahead{full: make(chan *[]byte, 2), done: make(chan struct{})}
	go func() {
		defer close(a.done)
		for b := range a.full {
			if a.err() == nil {
				a.write(w, b)
			}
		}
	}()
	return a
}

// write writes a buffer and gives it back. After an error nobody shall have it, as with gatherer.flush.
func (a *ahead) write(w io.Writer, b *[]byte) {
	ended := false
	defer func() {
		if !ended {
			a.panicked = recover()
			a.failed.Store(&io.ErrClosedPipe)
		}
	}()
	_, err := w.Write(*b)
	ended = true
	switch {
	case err != nil:
		a.failed.Store(&err)
	case cap(*b) == gatherBytes:
		*b = (*b)[:0]
		gatherBuffers.Put(b)
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
	a.full <- b
	return nil
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
