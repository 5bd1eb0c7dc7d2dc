package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestReadBody(t *testing.T) {
	const limit = 200_000
	e := &Engine{Config: Config{MaxBody: limit}}
	for _, c := range []struct {
		name            string
		sent, announced int
		want            func(error) bool
	}{
		{"nothing", 0, 0, nil},
		{"small", 10, 10, nil},
		{"as large as what is allocated at once", presized, presized, nil},
		{"larger", presized + 1, presized + 1, nil},
		{"of the limit", limit, limit, nil},
		{"over the limit", limit + 1, limit + 1, apierrors.IsRequestEntityTooLargeError},
		{"shorter than announced", 10, 20, apierrors.IsBadRequest},
		{"of unknown length", 70_000, -1, nil},
		{"of unknown length, empty", 0, -1, nil},
		{"of unknown length, of the limit", limit, -1, nil},
		{"of unknown length, over the limit", limit + 1, -1, apierrors.IsRequestEntityTooLargeError},
	} {
		data := bytes.Repeat([]byte("0123456789abcde"), c.sent/15+1)[:c.sent]
		for way, body := range map[string]io.Reader{"": bytes.NewReader(data), " in halves": iotest.HalfReader(bytes.NewReader(data)), " with its end": iotest.DataErrReader(bytes.NewReader(data))} {
			r := httptest.NewRequest("POST", "/", body)
			r.ContentLength = int64(c.announced)
			got, err := e.readBody(r)
			switch {
			case c.want != nil:
				if !c.want(err) {
					t.Errorf("%s%s: %v", c.name, way, err)
				}
			case err != nil || !bytes.Equal(got, data):
				t.Errorf("%s%s: %d bytes, %v", c.name, way, len(got), err)
			}
		}
	}
}

// An announced Content-Length allocates nothing: the buffer grows with what was
// received.
func TestRoomFollowsBody(t *testing.T) {
	for _, sent := range []int{0, 1, presized, 100_000, 1_000_000} {
		r := &rooms{left: sent}
		if _, err := readAll(r, 3<<20, 3<<20+1); !errors.Is(err, errHeld) {
			t.Error(err)
		}
		if r.largest > max(presized, sent) {
			t.Errorf("of %d bytes sent: room for %d more", sent, r.largest)
		}
	}
}

var errHeld = errors.New("no more comes")

// rooms is a body that ends early. It records the size of the buffers that it
// is asked to fill.
type rooms struct{ left, largest int }

func (r *rooms) Read(b []byte) (int, error) {
	r.largest = max(r.largest, len(b))
	if r.left == 0 {
		return 0, errHeld
	}
	n := min(r.left, len(b), 1500)
	r.left -= n
	return n, nil
}

func BenchmarkReadBody(b *testing.B) {
	e := &Engine{Config: Config{MaxBody: 3 << 20}}
	for _, size := range []int{500, 4 << 10, 30 << 10, 300 << 10, 3 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			r := httptest.NewRequest("POST", "/", nil)
			data := strings.NewReader(strings.Repeat("x", size))
			r.ContentLength = int64(size)
			b.ReportAllocs()
			for b.Loop() {
				data.Seek(0, io.SeekStart)
				r.Body = io.NopCloser(data)
				if _, err := e.readBody(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
