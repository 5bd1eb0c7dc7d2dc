package recorder

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Tasks are what runs for a recorder, nothing for nil. Nobody waits for what was kept before but who asks for the history of an object.
func (r *Recorder) Tasks(parts Parts) []guard.Task {
	if r == nil {
		return nil
	}
	all := []guard.Task{guard.Quiet("flight recorder", func(ctx context.Context) { r.KeepSeries(ctx, parts) }), guard.Quiet("", r.pack)}
	if r.Disk == nil {
		return all
	}
	return append(all, guard.Task{Name: "flight recorder", Run: r.Disk.Run}, guard.Quiet("", func(ctx context.Context) {
		if err := r.Load(ctx); err != nil && ctx.Err() == nil {
			r.Log.Warn("what the flight recorder kept before could not be read", "dir", r.Disk.dir, "error", err)
		}
	}))
}

// TellDeprecated returns what is told of deprecated requests, and tells next: itself for nil.
func (r *Recorder) TellDeprecated(next deprecation) deprecation {
	if r == nil {
		return next
	}
	return func(ctx context.Context, gvr schema.GroupVersionResource, subresource, removed string) {
		next(ctx, gvr, subresource, removed)
		r.Deprecated(ctx, gvr)
	}
}

type deprecation = func(ctx context.Context, gvr schema.GroupVersionResource, subresource, removed string)

// TellChanges returns a filter that tells what requests have changed.
func TellChanges(told func(...request.Change)) chain.Filter {
	return func(next chain.Handler) chain.Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			l := request.LatencyFrom(r.Context())
			l.Record()
			next(w, r)
			told(l.Trail().Changes...)
		}
	}
}
