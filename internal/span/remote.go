package span

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Transport creates a span for each HTTP request, and propagates the trace to the server.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip is part of http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !trace.SpanFromContext(r.Context()).IsRecording() {
		return t.next.RoundTrip(r)
	}
	ctx, s := Client(r.Context(), "HTTP "+r.Method)
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
		s.Fail(err)
		return nil, err
	}
	s.Set(attribute.Int("http.response.status_code", resp.StatusCode))
	return resp, nil
}
