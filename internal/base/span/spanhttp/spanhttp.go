// Package spanhttp makes spans (package span) of requests by HTTP. It is apart so
// that packages which have spans need no net/http.
package spanhttp

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/kanzen-io/kanzen/internal/base/span"
)

// Transport creates a span for each HTTP request, and propagates the trace to the server.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip is part of http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, h, end := Request(r.Context(), r.Method, r.URL)
	if h == nil {
		return t.next.RoundTrip(r)
	}
	r = r.Clone(ctx)
	maps.Copy(r.Header, h)
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		end(0, err)
		return nil, err
	}
	end(resp.StatusCode, nil)
	return resp, nil
}

// Request begins the span of an HTTP request. The header propagates the trace to the server; it is nil if the trace is not
// recorded. end takes the status of the answer, or the error.
func Request(ctx context.Context, method string, u *url.URL) (_ context.Context, _ http.Header, end func(status int, err error)) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, nil, func(int, error) {}
	}
	ctx, s := span.Client(ctx, "HTTP "+method)
	h := http.Header{}
	span.Propagator().Inject(ctx, propagation.HeaderCarrier(h))
	s.Set(attribute.String("http.request.method", method), attribute.String("url.full", u.String()),
		attribute.String("server.address", u.Hostname()))
	if port, err := strconv.Atoi(u.Port()); err == nil {
		s.Set(attribute.Int("server.port", port))
	}
	return ctx, h, func(status int, err error) {
		defer s.End()
		if err != nil {
			s.Fail(err)
			return
		}
		s.Set(attribute.Int("http.response.status_code", status))
	}
}
