package server

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/store"
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

var visibleObjects = flag.Int("visible.objects", 10_000, "how many objects BenchmarkVisible has in all")

// storeMaps puts configmaps into the database, the n-th of them into a namespace. It returns their view.
func storeMaps(b testing.TB, s *server, objects int, namespace func(n int) string) *store.View {
	b.Helper()
	return storeLabelled(b, s, objects, namespace, func(int) map[string]string { return nil })
}

// storeLabelled is storeMaps for configmaps that have labels.
func storeLabelled(b testing.TB, s *server, objects int, namespace func(n int) string, labels func(n int) map[string]string) *store.View {
	b.Helper()
	var view *store.View
	for _, ep := range s.base.objects.Endpoints() {
		if ep.GVR.Resource == "configmaps" {
			view = ep.View()
		}
	}
	var ops []store.Op
	for n := range objects {
		ns, name := namespace(n), fmt.Sprintf("c%d", n)
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns, UID: types.UID(fmt.Sprintf("%032x", n)), CreationTimestamp: metav1.Unix(int64(n%1000), 0), Labels: labels(n)}}
		raw, err := m.Marshal()
		if err != nil {
			b.Fatal(err)
		}
		value, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Raw: raw}).Marshal()
		if err != nil {
			b.Fatal(err)
		}
		ops = append(ops, store.Op{View: view, Key: ns + "/" + name, Write: store.Write{Value: append([]byte("k8s\x00"), value...)}})
		if len(ops) == 1000 || n == objects-1 {
			if _, err := store.Commit(b.Context(), ops); err != nil {
				b.Fatal(err)
			}
			ops = nil
		}
	}
	return view
}

// BenchmarkVisible lists what somebody sees who has a role in 3 of 5,000 namespaces, of many objects in all.
func BenchmarkVisible(b *testing.B) {
	s := start(b)
	const namespaces = 5000
	name := func(n int) string { return fmt.Sprintf("n%04d", n%namespaces) }
	for n := range namespaces {
		do(b, s, "POST", "/api/v1/namespaces", "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":%q,"labels":{"team":"t%d"}}}`, name(n), n/3), 201)
	}
	storeMaps(b, s, *visibleObjects, name)
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

// BenchmarkSortedPages lists pages of 500 of 100,000 objects, in an order of their own.
func BenchmarkSortedPages(b *testing.B) {
	s := start(b)
	storeMaps(b, s, 100_000, func(int) string { return "default" })
	const path = "/api/v1/configmaps?limit=500"
	b.Run("by key", func(b *testing.B) { asksFor(b, s, masters, path, "application/json") })
	b.Run("newest first, in the middle", func(b *testing.B) {
		var list struct{ Metadata struct{ Continue string } }
		for range 100 {
			if err := json.Unmarshal(do(b, s, "GET", path+"&sort=-metadata.creationTimestamp&continue="+list.Metadata.Continue, "", "", nil, 200), &list); err != nil {
				b.Fatal(err)
			}
		}
		asksFor(b, s, masters, path+"&sort=-metadata.creationTimestamp&continue="+list.Metadata.Continue, "application/json")
	})
	b.Run("newest first", func(b *testing.B) {
		asksFor(b, s, masters, path+"&sort=-metadata.creationTimestamp", "application/json")
	})
}

// BenchmarkIndexed lists the widgets of one tenant of a thousand, of 100,000: by an index, and by a field that has none.
func BenchmarkIndexed(b *testing.B) {
	s := start(b)
	do(b, s, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", "", []byte(widgetDefinition), 201)
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if code, _ := (question{method: "GET", path: widgets}).ask(s, masters); code == 200 {
			break
		} else if time.Since(began) > time.Minute {
			b.Fatal("the kind is not served")
		}
	}
	var view *store.View
	for _, ep := range s.base.objects.Endpoints() {
		if ep.GVR.Resource == "widgets" {
			view = ep.View()
		}
	}
	var ops []store.Op
	for n := range 100_000 {
		ops = append(ops, store.Op{View: view, Key: fmt.Sprintf("default/w%d", n), Write: store.Write{Value: fmt.Appendf(nil,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w%d","namespace":"default","uid":"u%[1]d","creationTimestamp":"2026-01-01T00:00:00Z","generation":1},"spec":{"tenant":"t%d","region":"t%[2]d"}}`, n, n%1000)}})
		if len(ops) == 1000 {
			if _, err := store.Commit(b.Context(), ops); err != nil {
				b.Fatal(err)
			}
			ops = nil
		}
	}
	for _, q := range []struct{ name, selector string }{
		{"no index", "spec.region=t7"}, {"index", "spec.tenant=t7"}, {"index, three of them", "spec.tenant in (t7,t8,t9)"},
	} {
		b.Run(q.name, func(b *testing.B) {
			asksFor(b, s, masters, widgets+"?fieldSelector="+url.QueryEscape(q.selector), "application/json")
		})
	}
}

// BenchmarkByLabel lists 200,000 objects by a label that none of them, or one of a thousand, has: without the index, and with it.
func BenchmarkByLabel(b *testing.B) {
	s := start(b)
	view := storeLabelled(b, s, 200_000, func(n int) string { return fmt.Sprintf("n%d", n%30) }, func(n int) map[string]string {
		return map[string]string{"app": "web", "tier": fmt.Sprintf("t%d", n%1000)}
	})
	const path = "/api/v1/configmaps?labelSelector="
	index := func(label string) {
		for has := false; !has; {
			do(b, s, "GET", path+label+"%3Dnone", "", "", nil, 200)
			o, err := view.Ordered(b.Context(), 0, view.ByLabel(label))
			if has = o != nil; err != nil {
				b.Fatal(err)
			}
		}
	}
	for n := range 4 { // there is no room for another one
		index(fmt.Sprint("l", n))
	}
	b.Run("none, no index", func(b *testing.B) { asksFor(b, s, masters, path+"tier%3Dnone", "application/json") })
	view.DropOrders(nil)
	index("tier")
	b.Run("none", func(b *testing.B) { asksFor(b, s, masters, path+"tier%3Dnone", "application/json") })
	b.Run("200", func(b *testing.B) { asksFor(b, s, masters, path+"tier%3Dt7", "application/json") })
}
