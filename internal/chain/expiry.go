package chain

import (
	"net/http"
	"sync"
	"time"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Grace is the time after its deadline in which a request may still be answered, so that the 504 can be sent. If the
// client does not read it in that time, the connection is closed.
const Grace = 5 * time.Second

// past is a deadline that also ends calls which are waiting already.
var past = time.Unix(1, 0)

// expiry interrupts a request at its deadline where its context cannot: while
// it reads a body that does not come, or writes an answer that nobody reads.
type expiry struct {
	request *http.Request // its context has the deadline
	resp    *response
	body    bool // the request has a body, so a read of it may be waiting
	late    bool // the answer began after the deadline; not to be read before resp.begun is set

	mu   sync.Mutex
	over bool // the handler has returned, so its writer is not to be touched; guarded by mu
	done bool // the deadline was dealt with; guarded by mu
	cut  bool // an answer that had begun was cut off; guarded by mu
	away bool // the connection is the handler's; guarded by mu
}

func newExpiry(r *http.Request, resp *response) *expiry {
	e := &expiry{request: r, resp: resp, body: r.Body != nil && r.ContentLength != 0}
	resp.expiry = e
	return e
}

// begin is told that the answer begins.
func (e *expiry) begin(h http.Header) {
	e.late = request.TimedOut(e.request.Context())
	if e.late && e.body && e.request.ProtoMajor == 1 {
		// The rest of the body is not read, so the next request's start in the connection is unknown.
		h.Set("Connection", "close")
	}
}

// interrupt is called when the context has ended. If its deadline has passed, reading ends now, and so does the writing
// of an answer that began before. An answer that has not begun gets Grace.
//
// No deadline is set on the connection before: HTTP/2 passes each one through the goroutine that serves the connection.
func (e *expiry) interrupt() {
	if !request.TimedOut(e.request.Context()) {
		return // the client has gone
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || e.done || e.away {
		return
	}
	e.done = true
	control := http.NewResponseController(e.resp.ResponseWriter)
	if e.body {
		_ = control.SetReadDeadline(past) // not supported in process, where bodies are there
	}
	if e.resp.begun.Load() && !e.late {
		e.cut = control.SetWriteDeadline(past) == nil
		return
	}
	_ = control.SetWriteDeadline(time.Now().Add(Grace))
}

// hijacked is told that the handler has taken over the connection, on which there is no deadline any more.
func (e *expiry) hijacked() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away = true
}

// end is called when the handler has returned; after it there are no interruptions. It reports whether the answer was
// cut off.
func (e *expiry) end() (cut bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	return e.cut
}
