package h2_test

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kanzen-io/kanzen/internal/wire/h2"
)

// pattern is the body that a server sends as the answer to a stream: four bytes say where in it they are.
func pattern(stream, size int) []byte {
	out := make([]byte, 0, size+8)
	for len(out) < size {
		out = binary.BigEndian.AppendUint32(out, uint32(stream<<16+len(out)))
	}
	return out[:size]
}

// wary is a client that opens its windows in small steps, gives up some requests, and keeps account of what it may be sent.
type wary struct {
	t      *testing.T
	random *rand.Rand
	tls    *tls.Conn
	framer *http2.Framer
	block  strings.Builder
	enc    *hpack.Encoder

	window  int // of the connection
	streams map[uint32]*asked
}

// asked is a request of a wary client.
type asked struct {
	size   int
	window int
	got    []byte
	given  bool // up
	done   bool
}

// smallWindow is what each stream of a wary client begins with.
const smallWindow = 700

func newWary(t *testing.T, s *served, seed uint64) *wary {
	w := &wary{t: t, random: rand.New(rand.NewPCG(seed, 0)), tls: dial(t, s), window: 65535, streams: map[uint32]*asked{}}
	w.enc = hpack.NewEncoder(&w.block)
	w.framer = http2.NewFramer(w.tls, w.tls)
	w.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(w.tls, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	w.check(w.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: smallWindow}))
	return w
}

func (w *wary) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// ask sends a request for so many bytes.
func (w *wary) ask(size int) {
	id := uint32(2*len(w.streams) + 1)
	w.streams[id] = &asked{size: size, window: smallWindow}
	w.block.Reset()
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "a"}, {":path", fmt.Sprintf("/%d/%d", id, size)}} {
		w.check(w.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	w.check(w.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte(w.block.String()), EndHeaders: true, EndStream: true}))
}

// open opens the window of a stream or of the connection.
func (w *wary) open(id uint32, window *int, by int) {
	*window += by
	w.check(w.framer.WriteWindowUpdate(id, uint32(by)))
}

// data takes a frame of data.
func (w *wary) data(f *http2.DataFrame) {
	a := w.streams[f.StreamID]
	n := len(f.Data())
	w.window -= n
	a.window -= n
	if w.window < 0 || a.window < 0 && !a.given {
		w.t.Fatalf("stream %d: %d bytes more than its window, %d than that of the connection", f.StreamID, -a.window, -w.window)
	}
	a.got = append(a.got, f.Data()...)
	if f.StreamEnded() {
		a.done = true
		return
	}
	switch w.random.IntN(12) {
	case 0:
		a.given, a.done = true, true
		w.check(w.framer.WriteRSTStream(f.StreamID, http2.ErrCodeCancel))
	default:
		if a.window == 0 || w.random.IntN(2) == 0 {
			w.open(f.StreamID, &a.window, 1+w.random.IntN(5000))
		}
	}
}

// run reads until all requests are answered or given up.
func (w *wary) run() {
	left := func() (n int) {
		for _, a := range w.streams {
			if !a.done {
				n++
			}
		}
		return n
	}
	for left() > 0 {
		f, err := w.framer.ReadFrame()
		w.check(err)
		switch f := f.(type) {
		case *http2.DataFrame:
			w.data(f)
		case *http2.SettingsFrame:
			if !f.IsAck() {
				w.check(w.framer.WriteSettingsAck())
			}
		case *http2.MetaHeadersFrame, *http2.WindowUpdateFrame:
		default:
			w.t.Fatalf("a frame that was not expected: %v", f)
		}
		if w.window < 3000 {
			w.open(0, &w.window, 1+w.random.IntN(9000))
		}
	}
}

// TestWindows has several streams at a time send more than their windows, with a client that takes little at a time.
func TestWindows(t *testing.T) {
	s := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.URL.Path, "/")
		id, _ := strconv.Atoi(parts[1])
		size, _ := strconv.Atoi(parts[2])
		body := pattern(id, size)
		for n := 1000 + id*37; len(body) > 0; n += 777 {
			n := min(n, len(body))
			if _, err := w.Write(body[:n]); err != nil {
				return // the client has given it up
			}
			if body = body[n:]; n%3 == 0 {
				w.(http.Flusher).Flush()
			}
		}
	})
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWary(t, s, seed)
			for range 40 {
				w.ask(w.random.IntN(60_000))
			}
			w.run()
			for id, a := range w.streams {
				if want := string(pattern(int(id), a.size)); !a.given && string(a.got) != want {
					t.Errorf("stream %d: %d bytes of %d, or others than were sent", id, len(a.got), len(want))
				}
			}
		})
	}
}

// TestStuck: a client that reads nothing is not waited for.
func TestStuck(t *testing.T) {
	failed := make(chan error, 1)
	s := serve(t, true, func(w http.ResponseWriter, _ *http.Request) {
		for piece := make([]byte, 64<<10); ; {
			if _, err := w.Write(piece); err != nil {
				failed <- err
				return
			}
		}
	}, func(_ *http.Server, two *h2.Server) { two.Stuck = 50 * time.Millisecond })
	w := newWary(t, s, 0)
	w.check(w.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1}))
	w.check(w.framer.WriteWindowUpdate(0, 1<<31-1-65535))
	w.ask(0)
	select {
	case err := <-failed:
		t.Log(err)
	case <-time.After(20 * time.Second):
		t.Fatal("the handler still waits for a client that does not read")
	}
}

// TestIdle: a connection without requests is closed after some time.
func TestIdle(t *testing.T) {
	both(t, func(t *testing.T, ours bool) {
		s := serve(t, ours, func(http.ResponseWriter, *http.Request) {}, func(srv *http.Server, _ *h2.Server) { srv.IdleTimeout = 50 * time.Millisecond })
		w := newWary(t, s, 0)
		for {
			f, err := w.framer.ReadFrame()
			w.check(err)
			if away, ok := f.(*http2.GoAwayFrame); ok {
				if away.ErrCode != http2.ErrCodeNo {
					t.Errorf("the code is %v", away.ErrCode)
				}
				return
			}
		}
	})
}

// TestShutdown: requests under way are answered, new ones are not, and then the connection ends.
func TestShutdown(t *testing.T) {
	both(t, func(t *testing.T, ours bool) {
		begun, goOn := make(chan struct{}), make(chan struct{})
		s := serve(t, ours, func(w http.ResponseWriter, _ *http.Request) {
			close(begun)
			<-goOn
			_, _ = io.WriteString(w, "hello")
		})
		w := newWary(t, s, 0)
		w.ask(0)
		<-begun
		ended := make(chan error)
		go func() { ended <- s.Config.Shutdown(t.Context()) }()
		var got string
		for away := false; ; {
			f, err := w.framer.ReadFrame()
			if err != nil {
				break
			}
			switch f := f.(type) {
			case *http2.GoAwayFrame:
				if !away {
					away = true
					w.ask(0) // not answered any more
					close(goOn)
				}
			case *http2.DataFrame:
				got += fmt.Sprint(f.StreamID, " ", string(f.Data()))
			}
		}
		if got != "1 hello" {
			t.Errorf("answered: %q", got)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestEnded: who stops a server waits until clients have the ends of their answers, although handlers have returned.
func TestEnded(t *testing.T) {
	var two *h2.Server
	s := serve(t, true, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(pattern(1, 10_000)) },
		func(_ *http.Server, used *h2.Server) { two = used })
	w := newWary(t, s, 0)
	w.ask(10_000)
	for first := false; !first; { // as much as the window takes; the handler need not wait for more
		f, err := w.framer.ReadFrame()
		w.check(err)
		if data, ok := f.(*http2.DataFrame); ok {
			w.streams[1].got = append(w.streams[1].got, data.Data()...)
			first = true
		}
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Config.Shutdown(t.Context()) }()
	written := make(chan struct{})
	go func() {
		two.Ended(t.Context())
		close(written)
	}()
	select {
	case <-written:
		t.Fatal("it did not wait for an answer of which the client has a part")
	case <-time.After(50 * time.Millisecond):
	}
	w.open(1, &w.streams[1].window, 20_000)
	for ended := false; !ended; {
		f, err := w.framer.ReadFrame()
		w.check(err)
		if data, ok := f.(*http2.DataFrame); ok {
			w.streams[1].got = append(w.streams[1].got, data.Data()...)
			ended = data.StreamEnded()
		}
	}
	if want := string(pattern(1, 10_000)); string(w.streams[1].got) != want {
		t.Errorf("%d bytes, or others than were sent", len(w.streams[1].got))
	}
	w.check(w.tls.Close())
	select {
	case <-written:
	case <-time.After(20 * time.Second):
		t.Fatal("it still waits")
	}
	w.check(<-stopped)
}
