package engine

import (
	"bytes"
	"errors"
	"testing"
)

// failing is a writer that takes some writes and then fails or panics.
type failing struct {
	bytes.Buffer
	left   int
	panics bool
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		if f.panics {
			panic("of the writer")
		}
		return 0, errors.New("gone")
	}
	return f.Buffer.Write(p)
}

// write writes pieces of all sizes to w, ahead, and returns what was written.
func writeAhead(w *failing) (written []byte, err error) {
	g := gatherer{w: w, ahead: newAhead(w)}
	defer g.end()
	for n := range 2000 {
		p := bytes.Repeat([]byte{byte(n)}, n*n%(3*gatherBytes/2))
		g.write(p)
		written = append(written, p...)
		clear(p) // the gatherer has no longer to do with it
	}
	g.flush()
	g.end()
	return written, g.err
}

func TestAheadWritesAllInOrder(t *testing.T) {
	w := &failing{left: 1 << 30}
	written, err := writeAhead(w)
	if err != nil || !bytes.Equal(w.Bytes(), written) {
		t.Errorf("%d bytes of %d arrived, or others; %v", w.Len(), len(written), err)
	}
}

func TestAheadOfAClientThatIsGone(t *testing.T) {
	w := &failing{left: 7}
	written, err := writeAhead(w)
	if err == nil || w.left < -1 || !bytes.HasPrefix(written, w.Bytes()) {
		t.Errorf("%v after %d writes more; %d bytes", err, -w.left, w.Len())
	}
}

// A panic in the writer is one of the handler, where it is recovered from.
func TestAheadOfAWriterThatPanics(t *testing.T) {
	defer func() {
		if p := recover(); p != "of the writer" {
			t.Errorf("recovered %v", p)
		}
	}()
	_, err := writeAhead(&failing{left: 7, panics: true})
	t.Error("no panic, but", err)
}
