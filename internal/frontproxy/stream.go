package frontproxy

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

// stream is a request that wants to change its protocol.
type stream struct {
	begun   atomic.Bool
	begins  func()          // called when it begins
	request context.Context // the context of the client's request
}

type streamKey struct{}

// NewStream returns the context of a request that wants to change its protocol. It ends with ctx, unless that has only
// passed its deadline after the stream has begun: a stream lasts as long as both sides want. A stream that has begun also ends
// when ending is closed. The client's connection then ends, too: a client that takes nothing must not hold the other side.
func NewStream(ctx context.Context, w http.ResponseWriter, ending <-chan struct{}) (context.Context, func()) {
	s := &stream{request: ctx}
	inner, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), streamKey{}, s))
	end := func() {
		cancel()
		if s.begun.Load() {
			client := http.NewResponseController(w)
			_, _ = client.SetReadDeadline(past), client.SetWriteDeadline(past) // fail only if it is closed already
		}
	}
	uncut := context.AfterFunc(ctx, func() {
		if !s.begun.Load() || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			end()
		}
	})
	s.begins = func() {
		s.begun.Store(true)
		go func() {
			select {
			case <-ending:
				end()
			case <-inner.Done():
			}
		}()
	}
	return inner, func() { uncut(); cancel() }
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// StreamBegins marks the stream of a context, if it has one, as begun.
func StreamBegins(ctx context.Context) {
	if s, ok := ctx.Value(streamKey{}).(*stream); ok {
		s.begins()
	}
}

// OfRequest returns the context of the client's request, which says why that has ended.
func OfRequest(ctx context.Context) context.Context {
	if s, ok := ctx.Value(streamKey{}).(*stream); ok {
		return s.request
	}
	return ctx
}
