package request

import "context"

// WithWatching returns a context whose watch calls f, and the func that ctx has, when it has sent its initial events. From then on it
// sends only changes, which are little work.
func WithWatching(ctx context.Context, f func()) context.Context {
	if outer, ok := ctx.Value(watchingKey).(func()); ok {
		inner := f
		f = func() { inner(); outer() }
	}
	return context.WithValue(ctx, watchingKey, f)
}

// Watching calls the funcs of WithWatching; the code that serves a watch calls it after the initial events.
func Watching(ctx context.Context) {
	if f, ok := ctx.Value(watchingKey).(func()); ok {
		f()
	}
}
