package engine

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"
)

// TestPacker reads each flush of a compressed watch while nothing follows it.
func TestPacker(t *testing.T) {
	from, to := io.Pipe()
	defer from.Close()
	flushes := [][]byte{bytes.Repeat([]byte("initial "), 10_000), []byte("event"), bytes.Repeat([]byte("more than a stored block may hold "), 4_000), []byte("event")}
	sizes := make([]int, len(flushes))
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer to.Close()
		p := &packer{w: to}
		for i, b := range flushes {
			counted := &counter{w: to}
			p.w = counted
			p.Write(b[:len(b)/2])
			p.Write(b[len(b)/2:])
			if err := p.end(); err != nil {
				t.Error(err)
			}
			sizes[i] = counted.n
			p.stored = true
		}
	}()
	z, err := gzip.NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range flushes {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(z, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("flush %d: %v, %.40q", i, err, got)
		}
	}
	if n, err := z.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		t.Fatalf("%d bytes too many, %v", n, err)
	}
	<-done
	if sizes[0] > len(flushes[0])/10 || sizes[1] != len(flushes[1])+len(memberHeader)+5+5+len(lastBlocks)+8 {
		t.Errorf("initial events of %d bytes took %d, an event of %d bytes %d", len(flushes[0]), sizes[0], len(flushes[1]), sizes[1])
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
