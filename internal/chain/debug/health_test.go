package debug

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestLivezGrace checks that /livez ignores an unfinished startup step during the grace period, and the other paths do
// not.
func TestLivezGrace(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	step := Check{Name: "step", Test: func(context.Context) error { return errors.New("not done") }}
	h := &Health{Log: slog.New(slog.DiscardHandler), Checked: func(string, string, bool) {},
		Healthz: []Check{step}, Live: []Check{step.After(clk.Now().Add(time.Minute), clk)}, Ready: []Check{step}}
	code := func(path string) int {
		w := httptest.NewRecorder()
		h.Serve(w, httptest.NewRequest("GET", path, nil))
		return w.Code
	}
	want := func(livez int) {
		t.Helper()
		for path, want := range map[string]int{"/healthz": 500, "/healthz/step": 500, "/readyz": 500, "/livez": livez, "/livez/step": livez} {
			if got := code(path); got != want {
				t.Errorf("%s: %d, want %d", path, got, want)
			}
		}
	}
	want(http.StatusOK)
	clk.Step(time.Minute + time.Second)
	want(http.StatusInternalServerError)
}

// TestExclude excludes checks by name and by group.
func TestExclude(t *testing.T) {
	gone := func(context.Context) error { return errors.New("gone") }
	h := &Health{Log: slog.New(slog.DiscardHandler), Checked: func(string, string, bool) {}, Healthz: []Check{
		{Name: "etcd", Test: gone}, {Name: "etcd-override-0", Group: "etcd", Test: gone}, {Name: "ping", Test: func(context.Context) error { return nil }},
	}}
	for query, want := range map[string]string{
		"exclude=etcd":            "[+]etcd excluded: ok\n[+]etcd-override-0 excluded with etcd: ok\n[+]ping ok\nhealthz check passed\n",
		"exclude=etcd-override-0": "[-]etcd failed: reason withheld\n[+]etcd-override-0 excluded: ok\n[+]ping ok\nhealthz check failed\n",
		"exclude=etcd,b,a": "[+]etcd excluded: ok\n[+]etcd-override-0 excluded with etcd: ok\n[+]ping ok\n" +
			"warn: some health checks cannot be excluded: no matches for \"a\",\"b\"\nhealthz check passed\n",
	} {
		w := httptest.NewRecorder()
		h.Serve(w, httptest.NewRequest("GET", "/healthz?verbose&"+query, nil))
		if got := w.Body.String(); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}
