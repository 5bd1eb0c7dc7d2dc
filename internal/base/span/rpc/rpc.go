// Package rpc makes spans (package span) of calls by gRPC. It is apart so that
// packages which have spans need no gRPC.
package rpc

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/kanzen-io/kanzen/internal/base/span"
)

// Unary makes a span of each call by gRPC, and lets its trace go on at the
// other end.
func Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return invoke(ctx, method, req, reply, cc, options...)
	}
	method = strings.TrimPrefix(method, "/")
	ctx, s := span.Client(ctx, method)
	defer s.End()
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	if md == nil {
		md = metadata.MD{}
	}
	span.Propagator().Inject(ctx, carrier(md))
	err := invoke(metadata.NewOutgoingContext(ctx, md), "/"+method, req, reply, cc, options...)
	s.Fail(err)
	s.Set(attribute.String("rpc.system.name", "grpc"), attribute.String("rpc.method", method),
		attribute.String("rpc.response.status_code", status.Code(err).String()))
	return err
}

// carrier is gRPC's metadata as a carrier of headers.
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
