package spanhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTransport(t *testing.T) {
	var parent string
	next := Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		parent = r.Header.Get("Traceparent")
		if r.URL.Path == "/fails" {
			return nil, errors.New("no way")
		}
		return &http.Response{StatusCode: http.StatusTeapot, Body: io.NopCloser(strings.NewReader(""))}, nil
	}))
	ask := func(ctx context.Context, path string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://hook.example.com:8443"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := next.RoundTrip(r); err == nil {
			_ = resp.Body.Close()
		}
		if r.Header.Get("Traceparent") != "" {
			t.Error("the caller's request was changed")
		}
	}
	if ask(t.Context(), "/"); parent != "" {
		t.Errorf("a trace out of nothing: %s", parent)
	}
	spans := tracetest.NewInMemoryExporter()
	ctx, _ := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test").Start(t.Context(), "request")
	ask(ctx, "/")
	ask(ctx, "/fails")
	got := spans.GetSpans()
	if len(got) != 2 || got[0].Name != "HTTP POST" || !strings.Contains(parent, got[1].SpanContext.SpanID().String()) || got[1].Status.Code != codes.Error {
		t.Errorf("%+v, then %s", got, parent)
	}
}
