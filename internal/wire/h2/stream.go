package h2

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"time"

	"golang.org/x/net/http2"
)

var (
	errStreamClosed = errors.New("http2: stream closed")
	errComplete     = errors.New("http2: request body closed due to handler exiting")
)

// stream is a request and its answer.
type stream struct {
	c       *conn
	id      uint32
	ctx     context.Context
	cancel  context.CancelFunc
	request *http.Request
	body    *body // nil: the request has none
	handle  func(http.ResponseWriter, *http.Request)
	answer  response

	declared, got int64 // bytes of the body: by its header (-1: it does not say), and those that arrived; for who reads

	// What follows is guarded by c.mu.
	inflow      inflow
	outflow     outflow
	unread      int // bytes of the body that arrived, and that the client does not know to have been read
	gotTrailers bool
	ended       bool          // the client has sent everything
	gone        bool          // nothing is sent or received any more
	cause       error         // why it is gone
	wake        chan struct{} // see await; nil until it waits
	reading     *time.Timer   // for the deadline of reading; nil: there is none
	writing     *time.Timer   // for that of writing
}

// start runs the handler of a stream, or has it wait for its turn: streams that were reset are not counted by the client any more, but
// their handlers may still be running.
func (c *conn) start(st *stream) error {
	c.streams[st.id] = st
	switch {
	case c.running < int(c.server.MaxStreams):
		c.running++
		c.server.workers.run(st)
	case len(c.waiting) > 4*int(c.server.MaxStreams):
		return connError(http2.ErrCodeEnhanceYourCalm)
	default:
		c.waiting = append(c.waiting, st)
	}
	return nil
}

// handlerDone starts the handler that waits longest, if its stream is still there.
func (c *conn) handlerDone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	for len(c.waiting) > 0 && c.running < int(c.server.MaxStreams) {
		st := c.waiting[0]
		c.waiting[0] = nil
		if c.waiting = c.waiting[1:]; len(c.waiting) == 0 {
			c.waiting = nil
		}
		if !st.gone {
			c.running++
			c.server.workers.run(st)
		}
	}
}

// run runs the handler.
func (st *stream) run() {
	defer st.c.handlerDone()
	panicked := true
	defer func() {
		st.cancel()
		if st.request.MultipartForm != nil {
			_ = st.request.MultipartForm.RemoveAll()
		}
		if panicked {
			st.panicked(recover())
		}
	}()
	st.handle(&st.answer, st.request)
	st.answer.finish()
	panicked = false
}

// panicked resets the stream, so that the client does not take the answer for complete.
func (st *stream) panicked(fault any) {
	st.fail(http2.ErrCodeInternal, errStreamClosed)
	st.answer.release()
	if fault != nil && fault != http.ErrAbortHandler {
		stack := make([]byte, 64<<10)
		st.c.server.logf("http2: panic serving %v: %v\n%s", st.c.remote, fault, stack[:runtime.Stack(stack, false)])
	}
}

// fail resets the stream if it is still there.
func (st *stream) fail(code http2.ErrCode, cause error) {
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !st.gone {
		c.reset(st.id, code)
		c.remove(st, cause)
	}
}

// end notes that the client has sent everything. c.mu is held.
func (st *stream) end() {
	st.ended = true
	st.body.end(whole(st.declared, st.got))
}

// answered notes that the whole answer is queued. c.mu is held.
func (c *conn) answered(st *stream) {
	if !st.ended {
		c.reset(st.id, http2.ErrCodeNo) // the client need not send the rest
	}
	c.remove(st, errComplete)
}

// remove ends a stream. c.mu is held.
func (c *conn) remove(st *stream, cause error) {
	if st.gone {
		return
	}
	st.gone, st.cause = true, cause
	delete(c.streams, st.id)
	for _, t := range []*time.Timer{st.reading, st.writing} {
		if t != nil {
			t.Stop()
		}
	}
	if st.body != nil {
		st.body.end(cause)
		c.refund(nil, st.unread)
	}
	st.cancel()
	st.wakeUp()
	if len(c.streams) == 0 {
		c.idleSince = time.Now()
		c.closeIfDone()
	}
}

// proceed tells a client that waits for it to send the body.
func (st *stream) proceed() {
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !st.gone {
		c.headerFrames(st.id, nil, http.StatusContinue, false)
		c.write()
	}
}
