package frontproxy

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// stream is a request that wants to change its protocol, with the writer of its answer.
type stream struct {
	http.ResponseWriter
	request context.Context // the context of the client's request
	inner   context.Context // NewStream returns it
	cancel  func()          // ends inner
	ending  <-chan struct{}
	begun   atomic.Bool
}

type streamKey struct{}

// NewStream returns the context of a request that wants to change its protocol, and the writer of its answer. The stream begins
// when the client's connection is taken over. The context ends with ctx, unless that has only passed its deadline after the stream
// has begun: a stream lasts as long as both sides want. A stream that has begun also ends when ending is closed. The client's
// connection then ends, too: a client that takes nothing must not hold the other side.
func NewStream(ctx context.Context, w http.ResponseWriter, ending <-chan struct{}) (context.Context, http.ResponseWriter, func()) {
	s := &stream{ResponseWriter: w, request: ctx, ending: ending}
	s.inner, s.cancel = context.WithCancel(context.WithValue(context.WithoutCancel(ctx), streamKey{}, s))
	uncut := context.AfterFunc(ctx, func() {
		if !s.begun.Load() || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.cancel()
		}
	})
	return s.inner, s, func() { uncut(); s.cancel() }
}

// Hijack is part of http.Hijacker. net/http removes the deadlines of a connection that is taken over, so the one that ends the
// stream comes after that.
func (s *stream) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(s.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	s.begun.Store(true)
	context.AfterFunc(s.inner, func() { _ = conn.SetDeadline(past) }) // fails only if it is closed already
	go func() {
		select {
		case <-s.ending:
			s.cancel()
		case <-s.inner.Done():
		}
	}()
	return conn, buffered, nil
}

// Unwrap is for http.ResponseController.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// past is a deadline that is over.
var past = time.Unix(1, 0)

// OfRequest returns the context of the client's request, which says why that has ended.
func OfRequest(ctx context.Context) context.Context {
	if s, ok := ctx.Value(streamKey{}).(*stream); ok {
		return s.request
	}
	return ctx
}
