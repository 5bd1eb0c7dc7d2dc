package planes

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/server/planes/owners"
)

// A request for a plane whose turn to start does not come is answered, before the connection is cut for being too slow.
func TestStillStarting(t *testing.T) {
	t.Parallel()
	cfg := settings(t.TempDir())
	cfg.RequestTimeout = 5 * time.Second
	g := start(t, cfg)
	g.create(t, "one", PlaneSpec{})
	eventually(t, "it does not sleep", func() bool { return g.find("one").sleep() == nil && !g.find("one").awake() })
	turns := g.classes[""].wakes
	for range cap(turns) {
		turns <- struct{}{}
	}
	const path = "/api/v1/namespaces/default"
	code, answer := g.ask(t, "one", "one", http.MethodGet, path, "")
	if code != http.StatusServiceUnavailable || !strings.Contains(answer, "the control plane is not available: it is still being started") {
		t.Errorf("%d %s", code, answer)
	}
	for range cap(turns) {
		<-turns
	}
	if code, answer := g.ask(t, "one", "one", http.MethodGet, path, ""); code != http.StatusOK {
		t.Errorf("when its turn has come: %d %s", code, answer)
	}
}

// Who asks for a plane of a server that stands still learns that what was requested may have been done.
func TestServerStandsStill(t *testing.T) {
	g := start(t, settings(t.TempDir()))
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, "https://root"+pathPrefix+"one/api/v1/namespaces", nil)
		g.failed(w, r, "one", &owners.Server{Name: "b:1"}, fmt.Errorf("round trip: %w", context.DeadlineExceeded))
		if w.Code != http.StatusGatewayTimeout || !strings.Contains(w.Body.String(), "may have been done") {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
}
