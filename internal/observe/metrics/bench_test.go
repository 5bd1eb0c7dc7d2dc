package metrics_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/observe/metrics"
	"github.com/kanzen-io/kanzen/internal/request"
)

// all is a server that serves everything.
type all struct{}

func (all) Owns(*http.Request, *request.Info) bool  { return true }
func (all) Serves(schema.GroupVersionResource) bool { return true }

// The measurement of a request, without the request itself.
func BenchmarkFilter(b *testing.B) {
	m := metrics.New(all{}, prometheus.NewRegistry(), true)
	next := func(http.ResponseWriter, *http.Request) {}
	for _, c := range []struct{ name, method, path string }{
		{"get", http.MethodGet, "/api/v1/namespaces/default/pods/web"},
		{"list", http.MethodGet, "/api/v1/pods"},
		{"create", http.MethodPost, "/api/v1/namespaces/default/pods"},
		{"watch", http.MethodGet, "/api/v1/pods?watch=1"},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := httptest.NewRequest(c.method, c.path, nil)
			i, err := request.NewInfo(r)
			if err != nil {
				b.Fatal(err)
			}
			r = r.WithContext(request.WithInfo(context.Background(), i))
			w := httptest.NewRecorder()
			h := m.Filter(next)
			b.ReportAllocs()
			for b.Loop() {
				h(w, r)
			}
		})
	}
	b.Run("filtered", func(b *testing.B) {
		b.ReportAllocs()
		filtered := m.Filtered("authentication")
		for b.Loop() {
			filtered(time.Millisecond)
		}
	})
}
