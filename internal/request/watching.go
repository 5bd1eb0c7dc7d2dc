package request

import "context"

// WithWatching returns a context whose watch tells by f that it has sent all
// that it begins with, and from now on is told of changes only: what is served
// then is little work.
func WithWatching(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, watchingKey, f)
}

// Watching is for who serves a watch, to be called once it has begun.
func Watching(ctx context.Context) {
	if f, ok := ctx.Value(watchingKey).(func()); ok {
		f()
	}
}
