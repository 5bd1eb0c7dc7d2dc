package chain

import (
	"bufio"
	"net"
	"net/http"
	"sync/atomic"
)

// response is the ResponseWriter that the filters share. It records whether the answer has begun, and lets filters add
// headers just before.
type response struct {
	http.ResponseWriter
	begun  atomic.Bool // the header was sent, or the connection was hijacked
	code   int         // the status sent; 0 before it is
	size   int64       // bytes of the body sent
	before []func(code int, h http.Header)
	// expiry is called when the answer begins; nil: there is no deadline.
	expiry *expiry
	// writes bounds the time of each write; nil: there is no bound.
	writes *progress
}

// responseOf finds the response in a writer that other filters may have wrapped, or makes one. The caller passes on the
// returned writer.
func responseOf(w http.ResponseWriter) (*response, http.ResponseWriter) {
	for inner := w; ; {
		switch t := inner.(type) {
		case *response:
			return t, w
		case interface{ Unwrap() http.ResponseWriter }:
			inner = t.Unwrap()
		default:
			made := &response{ResponseWriter: w}
			return made, made
		}
	}
}

// StatusOf returns the status that was sent through a writer of the chain; 200 if the handler named none.
func StatusOf(w http.ResponseWriter) int {
	if r, _ := responseOf(w); r.code != 0 {
		return r.code
	}
	return http.StatusOK
}

// SizeOf returns the number of body bytes that were sent through a writer of the chain.
func SizeOf(w http.ResponseWriter) int64 {
	r, _ := responseOf(w)
	return r.size
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// begin runs the funcs in before, once, when the header is about to be sent.
func (w *response) begin(code int) {
	if w.begun.Load() {
		return
	}
	if w.expiry != nil {
		w.expiry.begin(w.Header())
	}
	w.begun.Store(true)
	w.code = code
	for _, f := range w.before {
		f(code, w.Header())
	}
}

// WriteHeader sends the header, unless it is only informational.
func (w *response) WriteHeader(code int) {
	if code >= http.StatusOK || code == http.StatusSwitchingProtocols {
		w.begin(code)
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *response) Write(data []byte) (int, error) {
	w.begin(http.StatusOK)
	write := w.ResponseWriter.Write
	if w.writes != nil {
		write = func(data []byte) (int, error) { return w.writes.write(w.ResponseWriter, data) }
	}
	n, err := write(data)
	w.size += int64(n)
	return n, err
}

// Flush sends the bytes written so far. It makes the response an http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is Flush for http.ResponseController.
func (w *response) FlushError() error {
	w.begin(http.StatusOK)
	flush := http.NewResponseController(w.ResponseWriter).Flush
	if w.writes != nil {
		return w.writes.during(flush)
	}
	return flush()
}

// Hijack hands over the connection, if the protocol allows that.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.begin(http.StatusSwitchingProtocols)
		if w.expiry != nil {
			w.expiry.hijacked()
		}
		if w.writes != nil {
			conn, buffer = w.writes.hijacked(conn, buffer)
		}
	}
	return conn, buffer, err
}
