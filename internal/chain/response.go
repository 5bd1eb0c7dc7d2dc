package chain

import (
	"bufio"
	"net"
	"net/http"
	"sync/atomic"
)

// response is the ResponseWriter that the filters share: it knows whether the
// answer has begun, and lets filters add headers just before it does.
type response struct {
	http.ResponseWriter
	begun  atomic.Bool // the header is out, or the connection is somebody else's
	code   int         // the status sent; 0 before it is
	size   int64       // bytes of the body sent
	before []func(code int, h http.Header)
	// expiry is told when the answer begins; nil: there is no deadline.
	expiry *expiry
	// writes bounds how long writing takes; nil does not.
	writes *progress
}

// responseOf finds the response in a writer that other filters have wrapped,
// or makes one. The writer returned is the one to pass on.
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

// StatusOf returns the status that was answered with by a writer that passed
// the chain, 200 where none was named.
func StatusOf(w http.ResponseWriter) int {
	if r, _ := responseOf(w); r.code != 0 {
		return r.code
	}
	return http.StatusOK
}

// SizeOf returns how many bytes of a body were written by a writer that passed
// the chain.
func SizeOf(w http.ResponseWriter) int64 {
	r, _ := responseOf(w)
	return r.size
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// begin runs what is to happen before the header goes out.
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

// Flush sends what has been written. It is there also for those who look for
// an http.Flusher.
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

// Hijack hands over the connection where the protocol has one to give.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.begin(http.StatusSwitchingProtocols)
		if w.writes != nil {
			conn, buffer = w.writes.hijacked(conn, buffer)
		}
	}
	return conn, buffer, err
}
