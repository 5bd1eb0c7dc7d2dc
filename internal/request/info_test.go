package request

import (
	"net/http/httptest"
	"testing"
)

// TestLegacyWatch checks that a legacy watch is authorized with the subresource of its path, as without the prefix.
func TestLegacyWatch(t *testing.T) {
	for path, want := range map[string][3]string{
		"/api/v1/watch/pods":                                   {"pods", "", ""},
		"/api/v1/watch/namespaces/a/pods/b":                    {"pods", "b", ""},
		"/api/v1/watch/namespaces/a/pods/b/status":             {"pods", "b", "status"},
		"/apis/apps/v1/watch/namespaces/a/deployments/b/scale": {"deployments", "b", "scale"},
		"/api/v1/proxy/namespaces/a/pods/b/x":                  {"pods", "b", ""},
	} {
		i, err := NewInfo(httptest.NewRequest("GET", path, nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]string{i.Resource, i.Name, i.Subresource}; got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}
