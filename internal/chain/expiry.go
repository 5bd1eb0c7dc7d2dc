package chain

import (
	"net/http"
	"sync"
	"time"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Grace is how long after its deadline a request may still be answered: the
// 504 has to go out. A client that does not take even that is given up.
const Grace = 5 * time.Second

// past is a deadline that is over at once, also for a call that is waiting.
var past = time.Unix(1, 0)

// expiry interrupts a request at its deadline where its context cannot: while
// it reads a body that does not come, or writes an answer that nobody reads.
type expiry struct {
	request *http.Request // its context has the deadline
	resp    *response
	body    bool // the request has a body, which somebody may be waiting for
	late    bool // the answer began after the deadline; not to be read before resp.begun is set

	mu   sync.Mutex
	over bool // the handler has returned, so its writer is not to be touched; guarded by mu
	done bool // the deadline was dealt with; guarded by mu
	cut  bool // an answer that had begun was cut off; guarded by mu
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
		// Nobody knows where in the connection the next request begins.
		h.Set("Connection", "close")
	}
}

// interrupt is called when the context has ended. If that is by its deadline,
// reading ends now. So does writing of an answer that began before; another
// one has a little time left.
//
// Nothing is set before the deadline: HTTP/2 would pass each deadline through
// the goroutine that serves the connection.
func (e *expiry) interrupt() {
	if !request.TimedOut(e.request.Context()) {
		return // the client has gone
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || e.done {
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

// end is called when the handler has returned. There is no interruption after
// it. It says whether the answer was cut off.
func (e *expiry) end() (cut bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	return e.cut
}
