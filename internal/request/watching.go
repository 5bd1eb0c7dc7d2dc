package request

import "context"

// WithWatching returns a context whose watch calls f when it has sent its initial events. From then on it sends only
// changes, which are little work.
func WithWatching(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, watchingKey, f)
}

// Watching calls the func of WithWatching; the code that serves a watch calls it after the initial events.
func Watching(ctx context.Context) {
	if f, ok := ctx.Value(watchingKey).(func()); ok {
		f()
	}
}
