package rpc

import (
	"context"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

func TestUnary(t *testing.T) {
	var md metadata.MD
	var called string
	invoke := func(ctx context.Context, method string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		md, _ = metadata.FromOutgoingContext(ctx)
		called = method
		return nil
	}
	const method = "/etcdserverpb.KV/Txn"
	if err := Unary(t.Context(), method, nil, nil, nil, invoke); err != nil || called != method || len(md) != 0 {
		t.Errorf("%v, %s, %v", err, called, md)
	}
	spans := tracetest.NewInMemoryExporter()
	ctx, _ := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test").Start(t.Context(), "request")
	ctx = metadata.AppendToOutgoingContext(ctx, "k", "v")
	if err := Unary(ctx, method, nil, nil, nil, invoke); err != nil || called != method || md.Get("k")[0] != "v" {
		t.Errorf("%v, %s, %v", err, called, md)
	}
	got := spans.GetSpans()
	if len(got) != 1 || got[0].Name != "etcdserverpb.KV/Txn" || !strings.Contains(md.Get("traceparent")[0], got[0].SpanContext.SpanID().String()) {
		t.Errorf("%+v, %v", got, md)
	}
}
