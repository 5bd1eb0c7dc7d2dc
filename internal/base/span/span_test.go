package span

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// sampled returns a context with a span, and the exporter of its spans.
func sampled(t *testing.T) (context.Context, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	ctx, _ := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test").Start(t.Context(), "request")
	return ctx, spans
}

func TestUnsampledCostsNothing(t *testing.T) {
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		in, s := Start(ctx, "work")
		if in != ctx || s.On() {
			t.Error("a span out of nothing")
		}
		s.Set()
		s.Event("a step")
		s.EventLen("read", "len", 1)
		s.End()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSampled(t *testing.T) {
	ctx, spans := sampled(t)
	ctx, outer := Start(ctx, "outer")
	_, inner := Start(ctx, "inner")
	inner.EventLen("read", "len", 7)
	inner.End()
	inner.End()
	outer.End()
	got := spans.GetSpans()
	if len(got) != 2 || got[0].Name != "inner" || got[0].Parent.SpanID() != got[1].SpanContext.SpanID() || len(got[0].Events) != 1 {
		t.Errorf("%+v", got)
	}
}
