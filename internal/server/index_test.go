package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// Every path that "/" lists is served.
func TestIndex(t *testing.T) {
	s := kanzentest.Start(t)
	rt := s.Config().Transport
	get := func(path string) (int, []byte) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://kanzen"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body
	}
	code, body := get("/")
	var all metav1.RootPaths
	if err := json.Unmarshal(body, &all); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s %v", code, body, err)
	}
	for _, path := range []string{"/api", "/api/v1", "/apis", "/apis/", "/apis/apps", "/apis/apps/v1", "/debug/flags/v", "/debug/pprof", "/debug/pprof/profile", "/flagz", "/healthz",
		"/healthz/ping", "/livez", "/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/readyz", "/statusz", "/version"} {
		if !slices.Contains(all.Paths, path) {
			t.Errorf("%s is not listed among %s", path, strings.Join(all.Paths, " "))
		}
	}
	for _, path := range all.Paths {
		ask := path
		if path == "/debug/pprof/profile" {
			ask += "?seconds=1" // and not 30
		}
		// As that of kube-apiserver, the list names the place of documents whose names only /openapi/v3 tells.
		if code, body := get(ask); code == http.StatusNotFound && path != "/openapi/v3/" {
			t.Errorf("%s is listed, and answers %d %.200s", path, code, body)
		}
	}
}
