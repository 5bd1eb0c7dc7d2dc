package request

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzNewInfo checks the properties of an Info on which routers and authorizers rely.
func FuzzNewInfo(f *testing.F) {
	for _, seed := range []string{"GET /api/v1/namespaces/a/pods/b/log", "DELETE /apis/apps/v1/deployments", "GET /api/v1/watch/pods?fieldSelector=metadata.name%3dx",
		"PATCH /api/v1/namespaces/a/finalize", "GET //api//v1/..%2f", "POST /apis/a/b/namespaces", "GET /healthz", "GET /api/v1/proxy/a/b/c"} {
		method, target, _ := strings.Cut(seed, " ")
		f.Add(method, target)
	}
	f.Fuzz(func(t *testing.T, method, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Method, r.URL = method, u
		i, err := NewInfo(r)
		if i == nil {
			t.Fatalf("nothing, %v", err)
		}
		again, _ := NewInfo(r)
		if i.Path != u.Path || again.Verb != i.Verb || again.Resource != i.Resource || again.Namespace != i.Namespace || again.Name != i.Name {
			t.Errorf("%q is read in two ways: %+v, %+v", target, i, again)
		}
		switch {
		case err != nil:
		case !i.IsResource:
			if i.Group+i.Version+i.Resource+i.Namespace+i.Name+i.Subresource != "" {
				t.Errorf("%q is no resource, but %+v", target, i)
			}
		case len(i.Parts) == 0 || i.Parts[0] != i.Resource || i.Prefix != "api" && i.Prefix != "apis" || i.Prefix == "api" && i.Group != "":
			t.Errorf("%q: %+v", target, i)
		}
		for _, part := range []string{i.Group, i.Version, i.Namespace, i.Resource, i.Subresource} {
			if strings.Contains(part, "/") {
				t.Errorf("%q: a slash in %+v", target, i)
			}
		}
	})
}
