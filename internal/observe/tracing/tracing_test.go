package tracing

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/request"
)

func TestLoad(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"{apiVersion: apiserver.config.k8s.io/v1, kind: TracingConfiguration, endpoint: 'localhost:4317', samplingRatePerMillion: 100}", ""},
		{"{apiVersion: apiserver.config.k8s.io/v1beta1, kind: TracingConfiguration}", ""},
		{"{apiVersion: v1, kind: TracingConfiguration}", "not a TracingConfiguration"},
		{"{apiVersion: apiserver.config.k8s.io/v1, kind: TracingConfiguration, samplingRatePerMillion: -1}", "samplingRatePerMillion"},
		{"{apiVersion: apiserver.config.k8s.io/v1, kind: TracingConfiguration, endpoint: localhost}", "endpoint"},
		{"{apiVersion: apiserver.config.k8s.io/v1, kind: TracingConfiguration, unknown: 1}", "unknown"},
	} {
		file := filepath.Join(t.TempDir(), "tracing")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(file); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

func TestFilter(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, c := range []struct {
		name, group, traceparent string
		rate                     int32
		spans                    int
		joined                   bool
	}{
		{"sampled", "", "", 1e6, 1, false},
		{"not sampled", "", "", 0, 0, false},
		{"asked for by anybody", "", parent, 0, 0, false},
		{"asked for by who may", "system:masters", parent, 0, 1, true},
		{"linked", "", parent, 1e6, 1, false},
	} {
		spans := tracetest.NewInMemoryExporter()
		tr := newTracing(sdktrace.WithSyncer(spans), &apiserverv1.TracingConfiguration{}, "id")
		if c.rate > 0 {
			config := &apiserverv1.TracingConfiguration{}
			config.SamplingRatePerMillion = &c.rate
			tr = newTracing(sdktrace.WithSyncer(spans), config, "id")
		}
		r := httptest.NewRequest("GET", "/apis/apps/v1/namespaces/a/deployments/x/scale", nil)
		r.Header.Set("Traceparent", c.traceparent)
		i, _ := request.NewInfo(r)
		ctx := request.WithUser(request.WithInfo(r.Context(), i), &user.DefaultInfo{Groups: []string{c.group}})
		chain.Filter(tr.Filter).Then(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })).ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
		got := spans.GetSpans()
		if len(got) != c.spans {
			t.Errorf("%s: %d spans", c.name, len(got))
			continue
		}
		if len(got) == 0 {
			continue
		}
		if got[0].Name != "GET /apis/apps/v1/namespaces/{:namespace}/deployments/{:name}/scale" {
			t.Error(got[0].Name)
		}
		if joined := got[0].Parent.IsValid(); joined != c.joined || c.name == "linked" && len(got[0].Links) != 1 {
			t.Errorf("%s: %+v", c.name, got[0])
		}
	}
}
