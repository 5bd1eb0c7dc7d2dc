// Package span creates the spans within a sampled request, below the one that package tracing creates for it, with the
// names that kube-apiserver uses. For requests that are not sampled, it creates and allocates nothing, and a Span is
// its zero value.
package span

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/kanzen-io/kanzen/internal/base/span"

// Span is an operation of a sampled request. The zero value belongs to all other requests; its methods do nothing.
type Span struct{ s trace.Span }

// Start begins a span within that of ctx. The returned context is for the operation; it is ctx itself if there is no
// span.
func Start(ctx context.Context, name string) (context.Context, Span) {
	return start(ctx, name, trace.SpanKindInternal)
}

// Client is Start of a call to another process.
func Client(ctx context.Context, name string) (context.Context, Span) {
	return start(ctx, name, trace.SpanKindClient)
}

func start(ctx context.Context, name string, kind trace.SpanKind) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	ctx, s := parent.TracerProvider().Tracer(scope).Start(ctx, name, trace.WithSpanKind(kind))
	return ctx, Span{s}
}

// On reports whether there is a span. Callers build attributes only then, because they allocate.
func (s Span) On() bool { return s.s != nil }

// Set adds attributes.
func (s Span) Set(attributes ...attribute.KeyValue) {
	if s.s != nil {
		s.s.SetAttributes(attributes...)
	}
}

// Event records that the operation has reached a point.
func (s Span) Event(name string) {
	if s.s != nil {
		s.s.AddEvent(name)
	}
}

// EventLen is Event with a number of bytes or objects.
func (s Span) EventLen(name, what string, n int) {
	if s.s != nil {
		s.s.AddEvent(name, trace.WithAttributes(attribute.Int(what, n)))
	}
}

// End ends the span. Later calls do nothing.
func (s Span) End() {
	if s.s != nil {
		s.s.End()
	}
}

// Fail records an error of the operation; nil records nothing.
func (s Span) Fail(err error) {
	if s.s != nil && err != nil {
		s.s.SetStatus(codes.Error, err.Error())
	}
}

// Propagator reads and writes the headers that continue a trace in another process.
func Propagator() propagation.TextMapPropagator {
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
}
