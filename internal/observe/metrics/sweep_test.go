package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/observe/metrics"
	"github.com/kanzen-io/kanzen/internal/request"
)

// only serves one resource of a group, or none.
type only struct{ resource string }

func (o *only) Owns(_ *http.Request, i *request.Info) bool  { return i.Resource == o.resource }
func (o *only) Serves(gvr schema.GroupVersionResource) bool { return gvr.Resource == o.resource }

// The series of a resource that is gone are gone after the next scrape, but not before requests for it have ended: what
// those add at their end would be there for ever.
func TestSweep(t *testing.T) {
	served := &only{"widgets"}
	m := metrics.New(served, prometheus.NewRegistry(), false)
	page := func() string {
		w := httptest.NewRecorder()
		m.Handler(false, nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	ask := func(method, path string, next func(http.ResponseWriter, *http.Request)) {
		r := httptest.NewRequest(method, path, strings.NewReader("{}"))
		i, err := request.NewInfo(r)
		if err != nil {
			t.Fatal(err)
		}
		m.Filter(next)(httptest.NewRecorder(), r.WithContext(request.WithInfo(r.Context(), i)))
	}
	nothing := func(http.ResponseWriter, *http.Request) {}
	ask(http.MethodPost, "/apis/example.com/v1/widgets", nothing)
	ask(http.MethodGet, "/apis/example.com/v1/widgets/a", nothing)
	if text := page(); !strings.Contains(text, `resource="widgets"`) {
		t.Fatal(text)
	}
	ask(http.MethodGet, "/apis/example.com/v1/widgets?watch=1", func(http.ResponseWriter, *http.Request) {
		served.resource = ""
		if text := page(); !strings.Contains(text, `resource="widgets"`) {
			t.Error("the series of a watch that goes on are gone")
		}
	})
	if text := page(); strings.Contains(text, "widgets") {
		t.Errorf("left of a resource that is gone:\n%s", text)
	}
}
