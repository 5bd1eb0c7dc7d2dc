package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
)

const (
	v2Proto = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	v3Proto = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
)

func must(t *testing.T) func(b []byte, err error) []byte {
	return func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// every serves all that was recorded.
func every() Served {
	ix, err := readIndex()
	if err != nil {
		panic(err)
	}
	return Served{Resources: ix.Resources}
}

func newSet(t *testing.T) *Set {
	t.Helper()
	s, err := New(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), every())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newHandler(t *testing.T, s *Set) *Handler {
	return NewHandler(func() *Set { return s }, slog.New(slog.DiscardHandler))
}

func ask(h http.Handler, method, url string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, url, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHeaders(t *testing.T) {
	s := newSet(t)
	h := newHandler(t, s)
	apps, ok := s.Document("apis/apps/v1")
	if !ok {
		t.Fatal("no document for apps/v1")
	}
	hashed := "/openapi/v3/apis/apps/v1?hash=" + apps.Hash
	etag, v2etag := `"`+apps.Hash+`"`, `"`+s.v2Hash+`"`
	modified := "Fri, 01 May 2026 12:00:00 GMT"
	type headers map[string]string
	for _, c := range []struct {
		method, url string
		send        []string
		code        int
		want        headers // an empty value: header not set
	}{
		{"GET", "/openapi/v3", nil, 200, headers{"Content-Type": "text/plain; charset=utf-8", "Last-Modified": ""}},
		{"GET", "/openapi/v3/apis/apps/v1", nil, 200, headers{"Content-Type": "application/json", "Etag": etag,
			"Last-Modified": modified, "Vary": "Accept", "Cache-Control": "", "Expires": "", "Accept-Ranges": "bytes"}},
		{"GET", hashed, nil, 200, headers{"Content-Type": "application/json", "Etag": etag, "Vary": "Accept",
			"Cache-Control": "public, immutable"}},
		{"GET", hashed, []string{"Accept", v3Proto}, 200, headers{"Content-Type": v3Proto, "Etag": etag}},
		{"GET", hashed, []string{"Accept", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"}, 200, headers{"Content-Type": v3Proto}},
		{"GET", hashed, []string{"Accept-Encoding", "gzip"}, 200, headers{"Content-Encoding": ""}},
		{"POST", hashed, nil, 200, headers{"Content-Type": "application/json"}},
		{"GET", hashed, []string{"Range", "bytes=0-9"}, 206, headers{"Content-Length": "10"}},
		{"GET", hashed, []string{"If-None-Match", etag}, 304, headers{"Etag": etag, "Content-Type": "",
			"Cache-Control": "public, immutable", "Last-Modified": ""}},
		{"GET", "/openapi/v3/apis/apps/v1", []string{"If-None-Match", etag}, 304, headers{"Cache-Control": ""}},
		{"GET", "/openapi/v3/apis/apps/v1?hash=AB", nil, 301, headers{"Location": hashed, "Etag": etag}},
		{"GET", hashed, []string{"Accept", "text/html"}, 406, headers{"Vary": "Accept", "Etag": ""}},
		{"GET", "/openapi/v3/apis/nope/v1", nil, 404, headers{"Content-Type": "", "Vary": ""}},
		{"GET", "/openapi/v3/", nil, 404, nil},
		{"GET", "/openapi/v2/", nil, 404, nil},
		{"GET", "/openapi/v2", nil, 200, headers{"Content-Type": "application/json", "Etag": v2etag, "Last-Modified": modified}},
		{"POST", "/openapi/v2", nil, 200, headers{"Content-Type": "application/json"}},
		{"GET", "/openapi/v2", []string{"Accept", "application/json;q=0.1, */*"}, 200, headers{"Content-Type": "application/json"}},
		{"GET", "/openapi/v2", []string{"Accept", v2Proto + ", application/json;q=0.5"}, 200, headers{"Content-Type": v2Proto, "Etag": v2etag}},
		{"GET", "/openapi/v2", []string{"Accept-Encoding", "gzip"}, 200, headers{"Content-Encoding": "gzip", "Content-Length": ""}},
		{"GET", "/openapi/v2", []string{"Accept-Encoding", "gzip;q=0, br"}, 200, headers{"Content-Encoding": ""}},
		{"HEAD", "/openapi/v2", []string{"Accept-Encoding", "gzip"}, 200, headers{"Content-Encoding": "", "Etag": v2etag}},
		{"GET", "/openapi/v2", []string{"If-None-Match", v2etag}, 304, headers{"Etag": v2etag}},
		{"GET", "/openapi/v2", []string{"Accept", "text/html"}, 406, nil},
	} {
		w := ask(h, c.method, c.url, c.send...)
		if w.Code != c.code {
			t.Errorf("%s %s %v: code %d, want %d", c.method, c.url, c.send, w.Code, c.code)
		}
		for k, want := range c.want {
			if got := w.Header().Get(k); got != want {
				t.Errorf("%s %s %v: %s is %q, want %q", c.method, c.url, c.send, k, got, want)
			}
		}
		if (c.code == 304 || c.code == 301 || c.code == 406) && w.Body.Len() > 0 {
			t.Errorf("%s %s %v: code %d with a body", c.method, c.url, c.send, w.Code)
		}
	}
}

func TestIndexNamesEveryDocument(t *testing.T) {
	h := newHandler(t, newSet(t))
	var ix struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(ask(h, "GET", "/openapi/v3").Body.Bytes(), &ix); err != nil {
		t.Fatal(err)
	}
	if len(ix.Paths) < 40 {
		t.Errorf("%d documents", len(ix.Paths))
	}
	for path, p := range ix.Paths {
		js, pb := ask(h, "GET", p.ServerRelativeURL), ask(h, "GET", p.ServerRelativeURL, "Accept", v3Proto)
		if js.Code != 200 || pb.Code != 200 {
			t.Errorf("%s: code %d and %d", path, js.Code, pb.Code)
			continue
		}
		if !json.Valid(js.Body.Bytes()) {
			t.Errorf("%s is not JSON", path)
		}
		var doc openapiv3.Document
		if err := proto.Unmarshal(pb.Body.Bytes(), &doc); err != nil || doc.Openapi != "3.0.0" {
			t.Errorf("%s as protobuf: version %q, error %v", path, doc.Openapi, err)
		}
	}
}

func TestParts(t *testing.T) {
	s := newSet(t)
	h := newHandler(t, s)
	before := s.v2Hash
	made := 0
	part := Part{
		Documents: []Document{
			{Path: "apis/example.test/v1", Hash: "1", JSON: func() ([]byte, error) {
				made++
				return []byte(`{"openapi":"3.0.0","info":{"title":"x","version":"1"},"paths":{}}`), nil
			}},
			{Path: "api/v1", Hash: "mine"},
		},
		V2Hash: "1",
		V2: func() (*Fragment, error) {
			return &Fragment{
				Paths: map[string]json.RawMessage{"/apis/example.test/v1/": json.RawMessage(`{"get":{"responses":{"200":{"description":"OK"}}}}`)},
				Definitions: map[string]json.RawMessage{
					"test.example.v1.Gizmo":                           json.RawMessage(`{"type":"object"}`),
					"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": json.RawMessage(`{"type":"string"}`),
				},
			}, nil
		},
	}
	broken := Part{V2Hash: "2", V2: func() (*Fragment, error) { return nil, fmt.Errorf("not now") }}
	with := s.With(part, broken)
	h.Set = func() *Set { return with }

	if w := ask(h, "GET", "/openapi/v3"); !strings.Contains(w.Body.String(), `"/openapi/v3/apis/example.test/v1?hash=1"`) ||
		strings.Contains(w.Body.String(), "hash=mine") {
		t.Errorf("index: %s", w.Body)
	}
	if w := ask(h, "GET", "/openapi/v3/apis/example.test/v1", "If-None-Match", `"1"`); w.Code != 304 || made != 0 {
		t.Errorf("code %d, made %d times", w.Code, made)
	}
	if w := ask(h, "GET", "/openapi/v3/apis/example.test/v1", "Accept", v3Proto); w.Code != 200 || made != 1 {
		t.Errorf("code %d, made %d times", w.Code, made)
	}

	w := ask(h, "GET", "/openapi/v2")
	var doc struct {
		Swagger            string
		Paths, Definitions map[string]json.RawMessage
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if w.Header().Get("Etag") == `"`+before+`"` {
		t.Error("the v2 document has changed, its ETag has not")
	}
	if doc.Swagger != "2.0" || doc.Paths["/apis/example.test/v1/"] == nil || doc.Paths["/api/v1/pods"] == nil ||
		doc.Definitions["test.example.v1.Gizmo"] == nil ||
		len(doc.Definitions["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]) < 100 {
		t.Error("the merged document is not right")
	}

	var pb openapiv2.Document
	if err := proto.Unmarshal(ask(h, "GET", "/openapi/v2", "Accept", v2Proto).Body.Bytes(), &pb); err != nil {
		t.Fatal(err)
	}
	if got, want := len(pb.Definitions.AdditionalProperties), len(doc.Definitions); got != want {
		t.Errorf("%d definitions as protobuf, %d as JSON", got, want)
	}
	if got, want := len(pb.Paths.Path), len(doc.Paths); got != want {
		t.Errorf("%d paths as protobuf, %d as JSON", got, want)
	}

	packed := ask(h, "GET", "/openapi/v2", "Accept-Encoding", "gzip")
	plain := must(t)(gunzip(packed.Body.Bytes()))
	if !bytes.Equal(plain, w.Body.Bytes()) {
		t.Error("the packed document differs")
	}

	h.Set = func() *Set { return with.With() }
	if w := ask(h, "GET", "/openapi/v3/apis/example.test/v1"); w.Code != 404 {
		t.Errorf("a removed document: code %d", w.Code)
	}
	if h.Set().v2Hash != before {
		t.Error("the v2 document is as before, its hash is not")
	}
}

func BenchmarkUnpackCore(b *testing.B) {
	s, err := New(time.Time{}, every())
	if err != nil {
		b.Fatal(err)
	}
	d, _ := s.Document("api/v1")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.JSON(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New(time.Time{}, every()); err != nil {
			b.Fatal(err)
		}
	}
}
