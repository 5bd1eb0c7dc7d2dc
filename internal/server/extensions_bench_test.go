package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/inprocess"
)

// asksFor measures a request of a user, and reports the bytes of the answer.
func asksFor(b *testing.B, s *server, u user.Info, path, accept string) {
	b.Helper()
	size := 0
	ask := func() {
		req := httptest.NewRequest("GET", path, nil)
		req = req.WithContext(inprocess.WithUser(req.Context(), u))
		req.Header.Set("Accept", accept)
		w := &discard{h: http.Header{}}
		s.handler.ServeHTTP(w, req)
		if w.code != 200 {
			b.Fatal(w.code)
		}
		size = w.n
	}
	ask() // it loads the view
	b.ReportAllocs()
	for b.Loop() {
		ask()
	}
	b.ReportMetric(float64(size), "bytes")
}

// BenchmarkVisible lists what somebody sees who has a role in 3 of 5,000 namespaces, of many objects in all.
func BenchmarkVisible(b *testing.B) {
	s := start(b)
	const namespaces, each = 5000, 2
	for n := range namespaces {
		ns := fmt.Sprintf("n%04d", n)
		do(b, s, "POST", "/api/v1/namespaces", "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":%q,"labels":{"team":"t%d"}}}`, ns, n/3), 201)
		for k := range each {
			do(b, s, "POST", "/api/v1/namespaces/"+ns+"/configmaps", "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":"c%d"}}`, k), 201)
		}
	}
	for _, ns := range []string{"n0100", "n2222", "n4900"} {
		granted(b, s, "ann", ns, `{"apiGroups":[""],"resources":["configmaps"],"verbs":["list","watch"]}`)
	}
	const path = "/api/v1/configmaps"
	b.Run("roles in 3 namespaces", func(b *testing.B) { asksFor(b, s, named("ann"), path+"?visible=true", "application/json") })
	b.Run("3 namespaces named", func(b *testing.B) {
		asksFor(b, s, masters, path+"?namespaces=n0100,n2222,n4900", "application/json")
	})
	b.Run("3 namespaces selected", func(b *testing.B) {
		asksFor(b, s, masters, path+"?namespaceSelector=team%3Dt33", "application/json")
	})
	b.Run("everything", func(b *testing.B) { asksFor(b, s, masters, path, "application/json") })
}

// BenchmarkProjection lists two fields of 3,000 pods.
func BenchmarkProjection(b *testing.B) {
	s := start(b)
	withAccount(b, s)
	for n := range 3000 {
		do(b, s, "POST", pods, "application/json", "", podJSON(b, fmt.Sprintf("p%d", n)), 201)
	}
	b.Run("whole", func(b *testing.B) { asksFor(b, s, masters, pods, "application/json") })
	b.Run("two fields", func(b *testing.B) {
		asksFor(b, s, masters, pods+"?fields=metadata.name,status.phase", "application/json")
	})
	b.Run("two fields, protobuf", func(b *testing.B) {
		asksFor(b, s, masters, pods+"?fields=metadata.name,status.phase", "application/vnd.kubernetes.protobuf")
	})
}

// BenchmarkSortedPages lists pages of 500 of many objects, in an order of their own.
func BenchmarkSortedPages(b *testing.B) {
	s := start(b)
	const objects = 20000
	for n := range objects {
		do(b, s, "POST", "/api/v1/namespaces/default/configmaps", "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":"c%d"}}`, n), 201)
	}
	const path = "/api/v1/configmaps?limit=500"
	b.Run("by key", func(b *testing.B) { asksFor(b, s, masters, path, "application/json") })
	b.Run("newest first", func(b *testing.B) {
		asksFor(b, s, masters, path+"&sort=-metadata.creationTimestamp", "application/json")
	})
}
