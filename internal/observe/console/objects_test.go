package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestObjectsStandForReads says which requests the page's requests for objects become, and that there is no way to others.
func TestObjectsStandForReads(t *testing.T) {
	for query, want := range map[string]string{
		"resource=pods&version=v1":                                                       "/api/v1/pods?limit=200",
		"resource=pods&version=v1&limit=9999":                                            "/api/v1/pods?limit=500",
		"resource=pods&version=v1&namespace=a&limit=1&continue=x&labelSelector=a%3Db":    "/api/v1/namespaces/a/pods?continue=x&labelSelector=a%3Db&limit=1",
		"resource=pods&version=v1&namespace=a&name=b":                                    "/api/v1/namespaces/a/pods/b",
		"resource=pods&version=v1&namespace=a&name=b&at=7&dryRun=All":                    "/api/v1/namespaces/a/pods/b?at=7",
		"resource=pods&version=v1&namespace=a&name=b&revisions=true&limit=9":             "/api/v1/namespaces/a/pods/b?limit=9&revisions=true",
		"resource=deployments&version=v1&group=apps&name=b":                              "/apis/apps/v1/deployments/b",
		"resource=clusterroles&version=v1&group=rbac.authorization.k8s.io&name=system:x": "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:x",
		"resource=pods&version=v1&watch=true&resourceVersion=5&timeoutSeconds=99999":     "/api/v1/pods?allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=240&watch=true",
		"resource=pods&version=v1&name=a&watch=true":                                     "/api/v1/pods/a", // one object is not watched
		"resource=pods&version=v1&namespace=a&name=b%3Fc":                                "/api/v1/namespaces/a/pods/b%3Fc",
		"resource=pods&version=v1&name=a&as=table":                                       "",
		"resource=pods&version=v1&as=html":                                               "",
		"resource=pods/exec&version=v1&namespace=a&name=b":                               "",
		"resource=pods&version=v1&namespace=a&name=b/exec":                               "",
		"resource=pods&version=v1&namespace=a&name=b%252fexec":                           "",
		"resource=pods&version=v1&namespace=a&name=..":                                   "",
		"resource=pods&version=v1&namespace=..&name=b":                                   "",
		"resource=pods&version=v1&namespace=a/pods/b&name=exec":                          "",
		"resource=watch&version=v1&name=pods":                                            "",
		"resource=pods&version=v1/watch":                                                 "",
		"resource=pods&version=..":                                                       "",
		"resource=a&version=v1&group=../..":                                              "",
		"resource=a&version=v1&group=apps/v1":                                            "",
		"resource=&version=v1":                                                           "",
		"resource=pods":                                                                  "",
	} {
		r := httptest.NewRequest(http.MethodGet, "/console/data/objects?"+query, nil)
		r.Header.Set("Upgrade", "websocket")
		r.Header.Set("Connection", "Upgrade")
		got := ""
		if stand(r, "objects", "") {
			got = r.URL.String()
		}
		if got != want {
			t.Errorf("%s becomes %q, want %q", query, got, want)
		}
		if got != "" && (r.Method != http.MethodGet || r.Header.Get("Upgrade") != "" || !strings.HasPrefix(r.Header.Get("Accept"), "application/json")) {
			t.Errorf("%s becomes %s with %v", query, r.Method, r.Header)
		}
	}
	for prefix, want := range map[string]bool{"api": true, "apis": true, "": false, "version": false, "api/v1": false} {
		r := httptest.NewRequest(http.MethodGet, "/console/data/kinds?prefix="+url.QueryEscape(prefix), nil)
		if got := stand(r, "kinds", ""); got != want {
			t.Errorf("kinds of %q: %v", prefix, got)
		}
	}
	if r := httptest.NewRequest(http.MethodPost, "/console/data/objects?resource=pods&version=v1", nil); stand(r, "objects", "") {
		t.Error("the page can create objects")
	}
}

// FuzzObjectPath looks for a query whose path has more segments than those of an object.
func FuzzObjectPath(f *testing.F) {
	f.Add("apps", "v1", "deployments", "a", "b")
	f.Add("", "v1", "pods", "a/b", "%2e%2e")
	f.Fuzz(func(t *testing.T, group, version, resource, namespace, name string) {
		path, one, ok := objectPath(url.Values{"group": {group}, "version": {version}, "resource": {resource}, "namespace": {namespace}, "name": {name}})
		if !ok {
			return
		}
		want := 3
		if group != "" {
			want++
		}
		if namespace != "" {
			want += 2
		}
		if one {
			want++
		}
		if got := strings.Count(path, "/"); got != want {
			t.Errorf("%q has %d segments, want %d", path, got, want)
		}
		if u, err := url.ParseRequestURI((&url.URL{Path: path}).String()); err != nil || u.Path != path {
			t.Errorf("%q becomes %v, %v", path, u, err)
		}
	})
}
