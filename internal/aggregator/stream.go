package aggregator

import (
	"context"
	"errors"
	"sync/atomic"
)

// stream is a request that wants to change its protocol.
type stream struct {
	begun   atomic.Bool
	request context.Context // the context of the client's request
}

type streamKey struct{}

// newStream returns the context of a request that wants to change its protocol. It ends with ctx, unless that has only
// passed its deadline after the stream has begun: a stream lasts as long as both sides want.
func newStream(ctx context.Context) (context.Context, func()) {
	s := &stream{request: ctx}
	inner, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), streamKey{}, s))
	uncut := context.AfterFunc(ctx, func() {
		if !s.begun.Load() || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel()
		}
	})
	return inner, func() { uncut(); cancel() }
}

// streamBegins marks the stream of a context, if it has one, as begun.
func streamBegins(ctx context.Context) {
	if s, ok := ctx.Value(streamKey{}).(*stream); ok {
		s.begun.Store(true)
	}
}

// ofRequest returns the context of the client's request, which says why that has ended.
func ofRequest(ctx context.Context) context.Context {
	if s, ok := ctx.Value(streamKey{}).(*stream); ok {
		return s.request
	}
	return ctx
}
