package span

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Transport creates a span for each HTTP request, and propagates the trace to the server.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip is part of http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !trace.SpanFromContext(r.Context()).IsRecording() {
		return t.next.RoundTrip(r)
	}
	ctx, s := start(r.Context(), "HTTP "+r.Method, trace.SpanKindClient)
	defer s.End()
	r = r.Clone(ctx)
	Propagator().Inject(ctx, propagation.HeaderCarrier(r.Header))
	s.Set(attribute.String("http.request.method", r.Method), attribute.String("url.full", r.URL.String()),
		attribute.String("server.address", r.URL.Hostname()))
	if port, err := strconv.Atoi(r.URL.Port()); err == nil {
		s.Set(attribute.Int("server.port", port))
	}
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		s.fail(err)
		return nil, err
	}
	s.Set(attribute.Int("http.response.status_code", resp.StatusCode))
	return resp, nil
}

// Unary creates a span for each gRPC call, and propagates the trace to the server.
func Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return invoke(ctx, method, req, reply, cc, options...)
	}
	method = strings.TrimPrefix(method, "/")
	ctx, s := start(ctx, method, trace.SpanKindClient)
	defer s.End()
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	if md == nil {
		md = metadata.MD{}
	}
	Propagator().Inject(ctx, carrier(md))
	err := invoke(metadata.NewOutgoingContext(ctx, md), "/"+method, req, reply, cc, options...)
	s.fail(err)
	s.Set(attribute.String("rpc.system.name", "grpc"), attribute.String("rpc.method", method),
		attribute.String("rpc.response.status_code", status.Code(err).String()))
	return err
}

// carrier adapts gRPC metadata to a TextMapCarrier.
type carrier metadata.MD

// Get is part of propagation.TextMapCarrier.
func (c carrier) Get(key string) string { return strings.Join(metadata.MD(c).Get(key), ",") }

// Set is part of propagation.TextMapCarrier.
func (c carrier) Set(key, value string) { metadata.MD(c).Set(key, value) }

// Keys is part of propagation.TextMapCarrier.
func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	return keys
}
