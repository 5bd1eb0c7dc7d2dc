// Package span tells what a sampled request spends its time on: spans inside
// of the one that package tracing makes of it, under the names that
// kube-apiserver's have. Outside of a sampled request nothing is made or
// allocated; a Span is its zero value then.
package span

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/kanzen-io/kanzen/internal/span"

// Span is a piece of work of a sampled request. The zero value is that of any
// other request, and takes everything in silence.
type Span struct{ s trace.Span }

// Start begins a span in that of ctx. The context returned is for what is done
// in it; it is ctx itself where there is no span.
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

// On says that there is a span. Attributes are made only then, for they
// allocate.
func (s Span) On() bool { return s.s != nil }

// Set adds attributes.
func (s Span) Set(attributes ...attribute.KeyValue) {
	if s.s != nil {
		s.s.SetAttributes(attributes...)
	}
}

// Event notes that the work has come to a point.
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

// End ends the span. Only the first time counts.
func (s Span) End() {
	if s.s != nil {
		s.s.End()
	}
}

// Fail says that the work of the span failed; nil says nothing.
func (s Span) Fail(err error) {
	if s.s != nil && err != nil {
		s.s.SetStatus(codes.Error, err.Error())
	}
}

// Propagator reads and writes the headers by which a trace goes on in another process.
func Propagator() propagation.TextMapPropagator {
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
}
