package engine

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"testing"
)

// TestPacker reads each flush of a compressed watch while nothing follows it, as a reader does that knows files of one member only.
func TestPacker(t *testing.T) {
	from, to, err := os.Pipe() // which holds the end of what was flushed
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	flushes := [][]byte{bytes.Repeat([]byte("initial "), 10_000), []byte("event"), bytes.Repeat([]byte("more than a stored block may hold "), 4_000), []byte("event")}
	sizes := make([]int, len(flushes))
	done := make(chan struct{})
	read := make(chan struct{})
	go func() {
		defer close(done)
		defer to.Close()
		counted := &counter{w: to}
		p := &packer{w: counted}
		for i, b := range flushes {
			before := counted.n
			p.Write(b[:len(b)/2])
			p.Write(b[len(b)/2:])
			flush := p.flush
			if i == 0 {
				flush = p.initialEnd
			}
			if err := flush(); err != nil {
				t.Error(err)
			}
			sizes[i] = counted.n - before
			<-read // what was flushed is there before anything follows
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}()
	z, err := gzip.NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	z.Multistream(false)
	for i, want := range flushes {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(z, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("flush %d: %v, %.40q", i, err, got)
		}
		read <- struct{}{}
	}
	if n, err := z.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		t.Fatalf("%d bytes too many, %v", n, err)
	}
	<-done
	if sizes[0] > len(flushes[0])/10 || sizes[1] != len(flushes[1])+2*5+5 {
		t.Errorf("initial events of %d bytes took %d, an event of %d bytes %d", len(flushes[0]), sizes[0], len(flushes[1]), sizes[1])
	}
	none := &counter{w: io.Discard}
	if err := (&packer{w: none}).close(); err != nil || none.n > 0 {
		t.Errorf("a watch without an event: %d bytes, %v", none.n, err)
	}
}

type counter struct {
	w io.Writer
	n int
}

func (c *counter) Write(b []byte) (int, error) {
	c.n += len(b)
	return c.w.Write(b)
}
