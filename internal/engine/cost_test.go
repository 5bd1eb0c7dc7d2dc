package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/object/fieldmanager"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// countingCodec is the codec of things; it counts the decodings.
type countingCodec struct {
	decoded atomic.Int64
	// at is called with the count at each decoding; optional.
	at func(n int64)
}

func (c *countingCodec) Decode(_ context.Context, value []byte) (Object, error) {
	n := c.decoded.Add(1)
	if c.at != nil {
		c.at(n)
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	_, err := unmarshalJSON(value, u, false) // integers stay integers
	return u, err
}

func (c *countingCodec) Encode(_ context.Context, obj Object) ([]byte, error) {
	return json.Marshal(obj.(*unstructured.Unstructured).Object)
}

// admitAll is an Admission without plugins.
type admitAll struct{}

func (admitAll) Admit(context.Context, *admission.Attributes) error    { return nil }
func (admitAll) Validate(context.Context, *admission.Attributes) error { return nil }

var thingsGV = schema.GroupVersion{Group: "example.com", Version: "v1"}

// things makes an endpoint of things with n of them, each of so many bytes. cache
// is the budget for encodings.
func things(t *testing.T, n, bytes, cache int) (*Endpoint, *countingCodec) {
	t.Helper()
	ep, codec, _ := thingsIn(t, n, bytes, cache)
	return ep, codec
}

// thingsIn is things, and the log in which they are.
func thingsIn(t *testing.T, n, bytes, cache int) (*Endpoint, *countingCodec, *memory.DB) {
	t.Helper()
	db := memory.New(clock.RealClock{})
	s := store.NewCluster(db, store.Options{Prefix: "/registry/", EncodingBytes: cache})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	codec := &countingCodec{}
	e := New(Config{
		Store: s, Admit: admitAll{}, Clock: clock.RealClock{}, MinWatch: time.Minute, MaxBody: 1 << 20,
		NewUID: func() string { return "uid" }, NameSuffix: func() string { return "suffix" },
	})
	ep, err := e.Endpoint(&Resource{
		Plural: "things", Kind: "Thing", Prefix: "example.com/things", Hub: thingsGV, Codec: codec,
		Types:    func() (fieldmanager.Types, error) { return deduced{managedfields.NewDeducedTypeConverter()}, nil },
		Versions: []*Version{{GroupVersion: thingsGV, New: func() Object { return &unstructured.Unstructured{Object: map[string]any{}} }}},
		Fields: func(obj Object) fields.Set {
			color, _, _ := unstructured.NestedString(obj.(*unstructured.Unstructured).Object, "color")
			return fields.Set{"color": color}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for k := range n {
		add(t, ep, k, bytes)
	}
	if err := s.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ep, codec, db
}

func add(t *testing.T, ep *Endpoint, k, bytes int) {
	t.Helper()
	value := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t%03d","labels":{"a":"b"}},"color":"red","data":%q}`,
		k, strings.Repeat("x", bytes))
	if _, err := ep.View().Create(t.Context(), fmt.Sprintf("t%03d", k), store.Write{Value: []byte(value)}); err != nil {
		t.Fatal(err)
	}
}

// asks makes a request of a verb for things.
func asks(ctx context.Context, verb, accept, query string) *http.Request {
	info := &request.Info{IsResource: true, Verb: verb, Group: thingsGV.Group, Version: thingsGV.Version, Resource: "things", Parts: []string{"things"}}
	method := map[string]string{"deletecollection": "DELETE"}[verb]
	req := httptest.NewRequest(method, "/apis/example.com/v1/things?"+query, nil)
	req.Header.Set("Accept", accept)
	return req.WithContext(request.WithInfo(ctx, info))
}

const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

// A selector reads an object once, however many terms it has, and the fields
// that were read are cached with the object.
func TestSelectorReadsOnce(t *testing.T) {
	ep, codec := things(t, 5, 1, 1<<20)
	query := "fieldSelector=" + url.QueryEscape(strings.TrimSuffix(strings.Repeat("color!=blue,", 1000), ",")) + "&labelSelector=a%3Dc"
	for _, want := range []int64{5, 0} {
		before := codec.decoded.Load()
		w := httptest.NewRecorder()
		ep.ServeHTTP(w, asks(t.Context(), "list", "application/json", query))
		if got := codec.decoded.Load() - before; w.Code != 200 || got != want {
			t.Errorf("%d after %d decodings, want %d: %.300s", w.Code, got, want, w.Body)
		}
	}
	before := codec.decoded.Load()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &writer{header: http.Header{}, wrote: func([]byte) error { cancel(); return nil }}
	ep.ServeHTTP(w, asks(ctx, "watch", "application/json", query+"&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"))
	if got := codec.decoded.Load() - before; got != 0 {
		t.Errorf("a watch decoded %d times", got)
	}
}

// writer is a ResponseWriter that reports what is written.
type writer struct {
	header http.Header
	wrote  func(p []byte) error
}

func (w *writer) Header() http.Header         { return w.header }
func (w *writer) WriteHeader(int)             {}
func (w *writer) FlushError() error           { return nil }
func (w *writer) Write(p []byte) (int, error) { return len(p), w.wrote(p) }

// A request ends soon after its context, whatever it was doing with items.
func TestLoopsEndWithContext(t *testing.T) {
	const n, at = 150, 5
	for _, c := range []struct{ name, verb, accept, query string }{
		{"select", "list", "application/json", "fieldSelector=color%3Dred"},
		{"JSON", "list", "application/json", ""},
		{"pretty", "list", "application/json", "pretty=true"},
		{"YAML", "list", "application/yaml", ""},
		{"metadata", "list", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", ""},
		{"metadata in protobuf", "list", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", ""},
		{"table", "list", asTable, ""},
		{"what a watch begins with", "watch", "application/json", ""},
		{"a watch of a table", "watch", asTable, ""},
		{"deletecollection", "deletecollection", "application/json", "dryRun=All"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ep, codec := things(t, n, 1, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			codec.at = func(n int64) {
				if n == at {
					cancel()
				}
			}
			ep.ServeHTTP(httptest.NewRecorder(), asks(ctx, c.verb, c.accept, c.query))
			if got := codec.decoded.Load(); got < at || got > at+lookEvery+deleteWorkers {
				t.Errorf("%d of %d objects were decoded; the context ended at %d", got, n, at)
			}
		})
	}
	t.Run("events of a watch", func(t *testing.T) {
		ep, codec := things(t, 0, 1, 1)
		rev := formatRev(ep.view.Store().Revision())
		if _, err := ep.View().Snapshot(t.Context()); err != nil { // loads the view, so that later events are in its window
			t.Fatal(err)
		}
		for k := range n {
			add(t, ep, k, 1)
		}
		if err := ep.e.Store.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		codec.at = func(n int64) {
			if n == at {
				cancel()
			}
		}
		ep.ServeHTTP(httptest.NewRecorder(), asks(ctx, "watch", "application/json", "resourceVersion="+rev))
		if got := codec.decoded.Load(); got < at || got > at+lookEvery {
			t.Errorf("%d of %d objects were decoded; the context ended at %d", got, n, at)
		}
	})
}

// Writing a list ends when its client is gone, and at its deadline: then the
// answer is aborted, so that it is not taken for complete.
func TestListWritingEnds(t *testing.T) {
	const n, size = 40, 200 << 10
	for _, accept := range []string{"application/json", asTable} {
		for _, gone := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s gone=%v", accept, gone), func(t *testing.T) {
				ep, codec := things(t, n, size, 1)
				ctx := &expiring{Context: t.Context()}
				writes := 0
				w := &writer{header: http.Header{}, wrote: func([]byte) error {
					if writes++; writes < 3 {
						return nil
					}
					if gone {
						return errors.New("broken pipe")
					}
					ctx.over.Store(true)
					return nil
				}}
				aborted := func() (aborted bool) {
					defer func() { aborted = recover() == http.ErrAbortHandler }()
					ep.ServeHTTP(w, asks(ctx, "list", accept, "includeObject=Object"))
					return false
				}()
				if aborted == gone {
					t.Errorf("aborted: %v", aborted)
				}
				// All are decoded before the first byte.
				if got := codec.decoded.Load(); got < n || got > n+lookEvery {
					t.Errorf("%d of %d objects were decoded once more", got-n, n)
				}
				if writes > 3+2*lookEvery {
					t.Errorf("%d writes", writes)
				}
			})
		}
	}
}

// expiring is a context whose deadline has passed once it is over.
type expiring struct {
	context.Context
	over atomic.Bool
}

func (c *expiring) Err() error {
	if c.over.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

// A list whose client does not read holds a bounded part of its encodings.
func TestUnreadListHoldsLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures memory, of which the race detector takes its own")
	}
	const n, size = 100, 100 << 10
	ep, _ := things(t, 0, 0, 1)
	for _, out := range []output{{}, {pretty: true}} {
		for _, same := range []bool{true, false} {
			var mu sync.Mutex
			var made []weak.Pointer[byte] // guarded by mu: what is made is written by another goroutine
			l := jsonListing(out, []byte(`{"items":[`), n, func() itemFunc {
				return func(int) ([]byte, []byte, error) {
					b := []byte(`"` + strings.Repeat("x", size) + `"`)
					mu.Lock()
					defer mu.Unlock()
					made = append(made, weak.Make(&b[0]))
					return nil, b, nil
				}
			})
			l.same = same
			most, total, writes := 0, 0, 0
			w := &writer{header: http.Header{}, wrote: func(p []byte) error {
				total += len(p)
				if writes++; writes%32 != 1 {
					return nil
				}
				runtime.GC()
				alive := 0
				mu.Lock()
				defer mu.Unlock()
				for _, p := range made {
					if p.Value() != nil {
						alive += size
					}
				}
				most = max(most, alive)
				return nil
			}}
			c := &call{write: write{Endpoint: ep}, w: w, req: asks(t.Context(), "list", "", "")}
			if err := c.writeListing(out, l); err != nil {
				t.Fatal(err)
			}
			if most > heldBytes+2*size {
				t.Errorf("%d of %d bytes were held", most, n*size)
			}
			length := w.header.Get("Content-Length")
			if total < n*size || same && length != fmt.Sprint(total) || !same && length != "" {
				t.Errorf("%d bytes written, %s announced", total, length)
			}
		}
	}
}

// A human-readable list is the indented list.
func TestPrettyList(t *testing.T) {
	for _, n := range []int{0, 1, 3} {
		ep, _ := things(t, n, 10, 1<<20)
		for _, accept := range []string{"application/json", asTable, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"} {
			plain, pretty := httptest.NewRecorder(), httptest.NewRecorder()
			ep.ServeHTTP(plain, asks(t.Context(), "list", accept, ""))
			ep.ServeHTTP(pretty, asks(t.Context(), "list", accept, "pretty=true"))
			want := string(finishJSON([]byte(strings.TrimSpace(plain.Body.String())), true))
			if got := pretty.Body.String(); got != want || !json.Valid([]byte(got)) {
				t.Errorf("%s of %d: got %s\nwant %s", accept, n, got, want)
			}
		}
	}
}

// For a watcher that does not read, only little is encoded.
func TestBlockedWatcherHoldsLittle(t *testing.T) {
	const n, size = 60, 20 << 10
	for _, accept := range []string{"application/json", asTable} {
		ep, codec := things(t, 0, 0, 64<<20)
		if _, err := ep.View().Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		rev := formatRev(ep.view.Store().Revision())
		for k := range n {
			add(t, ep, k, size)
		}
		if err := ep.e.Store.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first, total := int64(0), 0
		w := &writer{header: http.Header{}, wrote: func(p []byte) error {
			if first == 0 {
				first = codec.decoded.Load() // here the watcher would block
			}
			if total += len(p); strings.Contains(string(p), fmt.Sprintf(`"t%03d"`, n-1)) {
				cancel()
			}
			return nil
		}}
		ep.ServeHTTP(w, asks(ctx, "watch", accept, "includeObject=Object&resourceVersion="+rev))
		if first > 4 || total < n*size {
			t.Errorf("%s: %d of %d events were made before the first was sent; %d bytes", accept, first, n, total)
		}
	}
}

// A list of a revision that only etcd still has gets the same answer as one of
// a revision in memory.
func TestListOfOldRevision(t *testing.T) {
	ep, _, db := thingsIn(t, 10, 1, 1<<20)
	rev := ep.view.Store().Revision()
	if _, err := ep.View().Snapshot(t.Context()); err != nil { // loads the view
		t.Fatal(err)
	}
	list := func(query string) (code int, names string, m metav1.ListMeta) {
		w := httptest.NewRecorder()
		ep.ServeHTTP(w, asks(t.Context(), "list", "application/json", query))
		var got struct {
			Metadata metav1.ListMeta
			Items    []struct{ Metadata metav1.ObjectMeta }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		for _, i := range got.Items {
			names += i.Metadata.Name + "@" + i.Metadata.ResourceVersion + " "
		}
		return w.Code, names, got.Metadata
	}
	exact := fmt.Sprintf("&resourceVersionMatch=Exact&resourceVersion=%d", rev)
	queries := []string{"", "limit=3", "limit=10", "limit=3&labelSelector=a%3Db", "limit=3&fieldSelector=color%3Dred",
		"limit=3&labelSelector=a%3Dc", "fieldSelector=metadata.name%3Dt004", "fieldSelector=metadata.name%3Dx", "labelSelector=a"}
	type answer struct {
		code  int
		pages []string
	}
	ask := func(query string) (a answer) {
		code, names, m := list(query + exact)
		for a.code = code; ; {
			left := "-"
			if m.RemainingItemCount != nil {
				left = fmt.Sprint(*m.RemainingItemCount)
			}
			a.pages = append(a.pages, fmt.Sprintf("%s left %s at %s", names, left, m.ResourceVersion))
			if m.Continue == "" {
				return a
			}
			code, names, m = list(query + "&continue=" + m.Continue)
			a.code = max(a.code, code)
		}
	}
	want := map[string]answer{}
	for _, q := range queries {
		want[q] = ask(q)
	}
	if got := want["limit=3"]; len(got.pages) != 4 || !strings.Contains(got.pages[0], "left 7 at "+formatRev(rev)) {
		t.Errorf("got %v", got)
	}
	_, _, page := list("limit=3" + exact)
	// The window moves on.
	i, err := ep.View().Get(t.Context(), "t004")
	for range 100 {
		if err != nil {
			t.Fatal(err)
		}
		i, err = ep.View().Update(t.Context(), i, store.Write{Value: fmt.Appendf(nil, `{"metadata":{"name":"t004"},"data":%q}`, strings.Repeat("x", 100<<10))})
	}
	if err := ep.e.Store.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, q := range queries {
		if got := ask(q); fmt.Sprint(got) != fmt.Sprint(want[q]) {
			t.Errorf("%q: got %v, want %v", q, got, want[q])
		}
	}
	if err := db.Compact(t.Context(), ep.view.Store().Revision()); err != nil {
		t.Fatal(err)
	}
	if code, _, m := list(exact); code != http.StatusGone || m.Continue != "" {
		t.Errorf("compacted: %d, %q", code, m.Continue)
	}
	code, _, m := list("limit=3&continue=" + page.Continue)
	if code != http.StatusGone || m.Continue == "" {
		t.Fatalf("compacted, continued: %d, %q", code, m.Continue)
	}
	if code, names, _ := list("limit=3&continue=" + m.Continue); code != http.StatusOK || !strings.HasPrefix(names, "t003@") || !strings.Contains(names, "t004@"+formatRev(i.Rev)) {
		t.Errorf("continued with what is there now: %d %s", code, names)
	}
}
