package server

import (
	"context"
	"fmt"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/access/authz/modes"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/observe/findings"
	"github.com/kanzen-io/kanzen/internal/observe/metrics"
	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/parts"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// This file wires the flight recorder.

// flight is the flight recorder of this server; it is nil without --flight-recorder-memory.
type flight struct {
	*recorder.Recorder
	// changes is told, in a fork that is there for another server's request, what requests have changed; nil: nobody is.
	changes func(...request.Change)
}

func (b *base) flightRecorder() (flight, error) {
	if o := b.seams.origin; o != nil {
		return flight{changes: o.options.Changes}, nil
	}
	if b.root.FlightRecorderMemory == 0 {
		return flight{}, nil
	}
	c := recorder.Config{Memory: b.root.FlightRecorderMemory, Slow: b.root.FlightRecorderSlow, Sample: b.root.FlightRecorderSample, Clock: b.process.Clock, Log: b.log}
	if dir := b.root.RecorderDir(); dir != "" {
		disk, err := recorder.OpenDisk(recorder.DiskConfig{Dir: dir, Size: b.root.FlightRecorderDirSize, Age: b.root.FlightRecorderDirAge, Clock: b.process.Clock, Log: b.log})
		switch {
		case err == nil:
			c.Disk = disk
		case b.root.FlightRecorderDir != "":
			return flight{}, fmt.Errorf("--flight-recorder-dir: %w", err)
		default: // nobody has asked for it
			b.log.Warn("the flight recorder keeps requests in memory only", "dir", dir, "error", err)
		}
	}
	r := recorder.New(c)
	b.metrics.Register(r)
	return flight{Recorder: r}, nil
}

// load takes up what was kept before this start. Nobody waits for it but who asks for the history of an object.
func (b *base) load(r *recorder.Recorder) func(ctx context.Context) {
	return func(ctx context.Context) {
		if err := r.Load(ctx); err != nil && ctx.Err() == nil {
			b.log.Warn("what the flight recorder kept before could not be read", "dir", b.root.RecorderDir(), "error", err)
		}
	}
}

// filter returns the chain's filter, nil without a recorder.
func (f flight) filter() chain.Filter {
	switch {
	case f.changes != nil:
		return f.tellChanges
	case f.Recorder == nil:
		return nil
	}
	return f.Recorder.Filter
}

// tellChanges is a filter that tells what requests have changed.
func (f flight) tellChanges(next chain.Handler) chain.Handler {
	return func(w http.ResponseWriter, r *http.Request) {
		l := request.LatencyFrom(r.Context())
		l.Record()
		next(w, r)
		f.changes(l.Trail().Changes...)
	}
}

// wrote returns what the engine tells of writes.
func (f flight) wrote() func(context.Context, engine.Written) {
	if f.Recorder == nil && f.changes == nil {
		return nil
	}
	return recorder.Wrote
}

// deprecated tells the metrics, and the recorder if there is one, of deprecated requests.
func (f flight) deprecated(m *metrics.Metrics) func(ctx context.Context, gvr schema.GroupVersionResource, subresource, removed string) {
	if f.Recorder == nil {
		return m.Deprecated
	}
	return func(ctx context.Context, gvr schema.GroupVersionResource, subresource, removed string) {
		m.Deprecated(ctx, gvr, subresource, removed)
		f.Deprecated(ctx, gvr)
	}
}

// recorderResources returns the resources by which the recorder is read.
func (b *base) recorderResources(f flight, a *modes.Set, p recorder.Parts, found *findings.Engine) []*engine.Resource {
	if f.Recorder == nil {
		return nil
	}
	may := authz.Require(a)
	return f.Resources(recorder.Deps{
		MayGet: func(ctx context.Context, o v1alpha1.ObjectReference) error {
			return may(ctx, &request.Info{IsResource: true, Verb: "get", Group: o.Group, Version: "*", Resource: o.Resource, Namespace: o.Namespace, Name: o.Name})
		},
		Explain: func(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec) (v1alpha1.AccessExplanationStatus, error) {
			return parts.Explain(ctx, a, authz.ForReview(spec))
		},
		Parts:    p,
		Findings: found.Findings,
		Asked:    parts.Asked(b.objects),
	})
}
