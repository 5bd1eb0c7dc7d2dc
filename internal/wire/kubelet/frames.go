package kubelet

import (
	"io"
	"sync"
	"time"

	"github.com/kanzen-io/kanzen/internal/wire/spdy"
)

// frames writes to a kubelet. Data is written by one goroutine at a time, which waits while the kubelet takes none.
// Whoever has a control frame must not wait for that: the kubelet may take no data because its own is not read.
type frames struct {
	conn       io.WriteCloser
	background sync.WaitGroup // writers of control frames

	mu sync.Mutex // held while writing

	queue   sync.Mutex
	pending []byte // control frames; guarded by queue
}

// maxPending bounds the control frames that wait. More are dropped: they are pings.
const maxPending = 1 << 10

// pingEvery is how often a kubelet is pinged, so that nothing between takes the connection for dead.
const pingEvery = 5 * time.Second

// keepAlive pings the kubelet until stop is called, which returns when nobody writes control frames any more. The
// connection must be closed then.
func (f *frames) keepAlive() (stop func()) {
	done := make(chan struct{})
	f.background.Go(func() {
		t := time.NewTicker(pingEvery)
		defer t.Stop()
		for id := uint32(1); ; id += 2 { // those of a client are odd
			select {
			case <-t.C:
				f.control(spdy.AppendPing(nil, id))
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		f.background.Wait()
	}
}

// data writes n bytes, which begin in the piece after the room for their head.
func (f *frames) data(stream uint32, piece *[pieceRoom + pieceSize]byte, n int) error {
	copy(piece[:], spdy.AppendData(make([]byte, 0, pieceRoom), stream, n, false))
	return f.write(piece[:pieceRoom+n])
}

// write writes whole frames.
func (f *frames) write(b []byte) error {
	f.mu.Lock()
	_, err := f.conn.Write(b)
	f.mu.Unlock()
	f.flush()
	return err
}

// control sends control frames as soon as nobody else writes. It does not wait.
func (f *frames) control(b []byte) {
	f.queue.Lock()
	if len(f.pending)+len(b) <= maxPending {
		f.pending = append(f.pending, b...)
	}
	f.queue.Unlock()
	f.background.Go(f.flush)
}

// flush writes the control frames that wait, unless someone else is writing, who does so next.
func (f *frames) flush() {
	for f.waiting() && f.mu.TryLock() {
		f.queue.Lock()
		b := f.pending
		f.pending = nil
		f.queue.Unlock()
		_, _ = f.conn.Write(b) // an error is that of the next data
		f.mu.Unlock()
	}
}

func (f *frames) waiting() bool {
	f.queue.Lock()
	defer f.queue.Unlock()
	return len(f.pending) > 0
}
