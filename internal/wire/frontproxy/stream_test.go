package frontproxy

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"
)

// hijackable is a writer whose connection can be taken over. As in net/http, that removes the connection's deadlines.
type hijackable struct {
	http.ResponseWriter
	conn net.Conn
}

func newHijackable(t *testing.T) hijackable {
	t.Helper()
	conn, client := net.Pipe()
	t.Cleanup(func() { _, _ = conn.Close(), client.Close() })
	return hijackable{httptest.NewRecorder(), conn}
}

// Hijack is part of http.Hijacker.
func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, nil, h.conn.SetDeadline(time.Time{})
}

func begin(t *testing.T, w http.ResponseWriter) net.Conn {
	t.Helper()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// The deadline of a request ends an upgrade that nobody has answered, but no stream that has begun. A client that leaves
// ends both.
func TestStreamOutlivesDeadline(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		begun, leaves bool
		ended         bool
	}{
		{"unanswered", false, false, true}, {"begun", true, false, false}, {"left", true, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client, leave := context.WithCancel(t.Context())
			defer leave()
			request, cancel := context.WithTimeout(client, time.Hour)
			if !test.leaves {
				cancel()
				request, cancel = context.WithDeadline(client, time.Unix(1, 0))
			}
			defer cancel()
			if !test.leaves && !test.begun {
				inner, _, end := NewStream(request, newHijackable(t), nil)
				defer end()
				<-inner.Done()
				return
			}
			late := make(chan struct{})
			inner, w, end := NewStream(lateContext{request, late}, newHijackable(t), nil)
			defer end()
			begin(t, w)
			if test.leaves {
				leave()
				close(late)
				<-inner.Done()
				return
			}
			close(late)
			select {
			case <-inner.Done():
				t.Error("the deadline has ended the stream")
			case <-time.After(50 * time.Millisecond):
			}
			if OfRequest(inner).Err() == nil {
				t.Error("the request has no deadline")
			}
		})
	}
}

// The end of the server, or of the request, ends a stream and the client's connection, also if it comes just before the connection is
// taken over.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		for _, cut := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			ending := make(chan struct{})
			over := func() { close(ending) }
			if cut {
				over = cancel
			}
			inner, w, leave := NewStream(ctx, newHijackable(t), ending)
			if before {
				over()
			}
			conn := begin(t, w)
			if !before {
				over()
			}
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) { // or it never returns
				t.Errorf("before %t, cut %t: %v", before, cut, err)
			}
			<-inner.Done()
			leave()
			cancel()
		}
	}
}

// lateContext ends as its parent, but only when late is closed.
type lateContext struct {
	context.Context
	late chan struct{}
}

// Done is part of context.Context.
func (c lateContext) Done() <-chan struct{} { return c.late }
