package audit

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/request"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

// kept stores events, or rejects them.
type kept struct {
	mu     sync.Mutex
	events []*auditv1.Event
	sizes  []int
	refuse bool
	closed bool
}

func (k *kept) Process(events ...*auditv1.Event) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, ev := range events {
		own := *ev
		k.events = append(k.events, &own)
	}
	k.sizes = append(k.sizes, len(events))
	return !k.refuse
}

// batches returns the sizes of the batches.
func (k *kept) batches() []int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.sizes)
}

func (k *kept) Close() error { k.closed = true; return nil }

func incoming(method, path string) (*http.Request, *request.Audit) {
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("User-Agent", "tester")
	i, err := request.NewInfo(r)
	if err != nil {
		panic(err)
	}
	a := request.NewAudit("id", request.AuditUndecided)
	ctx := request.WithUser(request.WithInfo(request.WithAudit(r.Context(), a), i),
		&user.DefaultInfo{Name: "alice", UID: "1", Groups: []string{"people"}, Extra: map[string][]string{"scope": {"a", "b"}}})
	return r.WithContext(request.WithReceived(ctx, now)), a
}

func TestRecord(t *testing.T) {
	k := &kept{}
	clk := clocktesting.NewFakePassiveClock(now)
	a := &Auditor{Policy: parse(t, "omitManagedFields: true\nrules: [{level: RequestResponse}]"), Backend: k, Clock: clk}
	r, facts := incoming("POST", "/api/v1/namespaces/ns/configmaps?x=1")
	ctx, _ := request.WithLatency(r.Context(), clk)
	r = r.WithContext(ctx)
	request.AddAuditAnnotation(ctx, "before/policy", "kept")
	rec := a.Begin(r)
	if !rec.Received() {
		t.Fatal("refused")
	}
	request.AddAuditAnnotation(ctx, "a/b", "first")
	request.AddAuditAnnotation(ctx, "a/b", "second")
	obj := &metav1.ObjectMeta{Name: "c", UID: "u", ResourceVersion: "7"}
	facts.Request(obj, func() ([]byte, error) { return []byte(`{"metadata":{"name":"c","managedFields":[{}]}}`), nil })
	facts.Response(nil, func() ([]byte, error) {
		return []byte(`{"items":[{"metadata":{"name":"c","managedFields":[{}]}}]}`), nil
	})
	facts.Impersonate(&user.DefaultInfo{Name: "bob"}, "impersonate:user-info")
	request.Spend(ctx, request.LayerStorage, 300*time.Millisecond)
	clk.SetTime(now.Add(time.Second))
	rec.Complete(201, false)

	first, last := k.events[0], k.events[1]
	if first.Stage != auditv1.StageRequestReceived || !first.StageTimestamp.Equal(&first.RequestReceivedTimestamp) || first.ResponseStatus != nil || first.Annotations != nil {
		t.Errorf("%+v", first)
	}
	if first.RequestURI != "/api/v1/namespaces/ns/configmaps?x=1" || first.Verb != "create" || first.UserAgent != "tester" || first.AuditID != "id" ||
		!reflect.DeepEqual(first.User, authenticationv1.UserInfo{Username: "alice", UID: "1", Groups: []string{"people"}, Extra: map[string]authenticationv1.ExtraValue{"scope": {"a", "b"}}}) {
		t.Errorf("%+v", first)
	}
	if *last.ObjectRef != (auditv1.ObjectReference{Resource: "configmaps", Namespace: "ns", Name: "c", UID: "u", APIVersion: "v1", ResourceVersion: "7"}) || first.ObjectRef.Name != "" {
		t.Errorf("%+v", last.ObjectRef)
	}
	want := map[string]string{"before/policy": "kept", "a/b": "first", "apiserver.latency.k8s.io/etcd": "300ms", "apiserver.latency.k8s.io/total": "1s"}
	if !reflect.DeepEqual(last.Annotations, want) || last.ResponseStatus.Code != 201 {
		t.Errorf("%v %+v", last.Annotations, last.ResponseStatus)
	}
	if string(last.RequestObject.Raw) != `{"metadata":{"name":"c"}}` || string(last.ResponseObject.Raw) != `{"items":[{"metadata":{"name":"c"}}]}` {
		t.Errorf("%s %s", last.RequestObject.Raw, last.ResponseObject.Raw)
	}
	if last.ImpersonatedUser.Username != "bob" || last.AuthenticationMetadata.ImpersonationConstraint != "impersonate:user-info" {
		t.Errorf("%+v", last)
	}
}

// What a level leaves out is not even encoded.
func TestLevelsKeepSecrets(t *testing.T) {
	for level, objects := range map[string][2]bool{"None": {}, "Metadata": {}, "Request": {true, false}, "RequestResponse": {true, true}} {
		k := &kept{}
		a := &Auditor{Policy: parse(t, "rules: [{level: "+level+"}]"), Backend: k, Clock: clocktesting.NewFakePassiveClock(now)}
		r, facts := incoming("PUT", "/api/v1/namespaces/ns/secrets/s")
		rec := a.Begin(r)
		encoded := [2]bool{}
		facts.Request(&metav1.ObjectMeta{}, func() ([]byte, error) { encoded[0] = true; return []byte(`{"data":"secret"}`), nil })
		facts.Response(nil, func() ([]byte, error) { encoded[1] = true; return []byte(`{"data":"secret"}`), nil })
		if encoded != objects {
			t.Errorf("%s: encoded %v", level, encoded)
		}
		if (rec == nil) != (level == "None") {
			t.Errorf("%s: %v", level, rec)
		}
		if rec == nil {
			continue
		}
		rec.Complete(200, false)
		if line := string(appendEvent(nil, k.events[0])); strings.Contains(line, "secret\"}") != (objects[0] || objects[1]) {
			t.Errorf("%s: %s", level, line)
		}
	}
}

func TestEndings(t *testing.T) {
	k := &kept{}
	a := &Auditor{Policy: parse(t, "rules: [{level: Metadata}]"), Backend: k, Clock: clocktesting.NewFakePassiveClock(now)}
	r, facts := incoming("GET", "/api/v1/pods?watch=1")
	a.Begin(r).Complete(0, true)
	if len(k.events) != 2 || k.events[0].Stage != auditv1.StageResponseStarted || k.events[1].ResponseStatus.Message != "Connection closed early" {
		t.Errorf("no answer: %+v", k.events)
	}
	k.events = nil
	rec := a.Begin(r)
	rec.Panicked("oh")
	if s := k.events[0]; s.Stage != auditv1.StagePanic || s.ResponseStatus.Message != "APIServer panic'd: oh" || s.ResponseStatus.Code != 500 {
		t.Errorf("%+v", s)
	}
	facts.Response(&metav1.Status{Status: "Failure", Reason: "NotFound", Message: "no", Code: 404, TypeMeta: metav1.TypeMeta{Kind: "Status"}}, nil)
	rec.Started(404)
	if s := k.events[1].ResponseStatus; s.Reason != "NotFound" || s.Kind != "" {
		t.Errorf("%+v", s)
	}
	k.refuse = true
	if rec.Received() {
		t.Error("a strict backend refuses")
	}
}

// random sets an event's fields to random values.
func random(rnd *rand.Rand) *auditv1.Event {
	texts := []string{"", "plain", `quo"te`, "<b>&", "line\n", "ünï\u2028", string([]byte{0xff}), `back\slash`}
	text := func() string { return texts[rnd.IntN(len(texts))] }
	list := func() (l []string) {
		for range rnd.IntN(3) {
			l = append(l, text())
		}
		return l
	}
	u := func() authenticationv1.UserInfo {
		info := authenticationv1.UserInfo{Username: text(), UID: text(), Groups: list()}
		if rnd.IntN(2) == 0 {
			info.Extra = map[string]authenticationv1.ExtraValue{text(): list(), "x": {}}
		}
		return info
	}
	ev := &auditv1.Event{TypeMeta: metav1.TypeMeta{Kind: text(), APIVersion: text()}, Level: "Request", AuditID: "id", Stage: "Panic", RequestURI: text(),
		Verb: text(), User: u(), SourceIPs: list(), UserAgent: text(), RequestReceivedTimestamp: metav1.NewMicroTime(now.Add(time.Duration(rnd.IntN(1e9))))}
	if rnd.IntN(2) == 0 {
		v := u()
		ev.ImpersonatedUser, ev.AuthenticationMetadata = &v, &auditv1.AuthenticationMetadata{ImpersonationConstraint: text()}
		ev.ObjectRef = &auditv1.ObjectReference{Resource: text(), Namespace: text(), Name: text(), UID: "u", APIGroup: text(), APIVersion: text(), ResourceVersion: text(), Subresource: text()}
		ev.RequestObject = &runtime.Unknown{Raw: []byte(`{"a": "<b>", "c" : [1, 2]}`), ContentType: runtime.ContentTypeJSON}
		ev.Annotations = map[string]string{text(): text(), "b": text(), "a": text()}
		ev.StageTimestamp = metav1.NewMicroTime(now)
	}
	switch rnd.IntN(3) {
	case 0:
		ev.ResponseStatus = &metav1.Status{Code: int32(rnd.IntN(2) * 200)}
	case 1:
		ev.ResponseStatus = &metav1.Status{Status: "Failure", Message: text(), Reason: "NotFound", Code: 404, Details: &metav1.StatusDetails{Name: text()}}
	}
	return ev
}

func TestEncodingIsThatOfTheStandardLibrary(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		ev := random(rnd)
		want, err := json.Marshal(ev)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendEvent(nil, ev); !bytes.Equal(got, want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
	ev := &auditv1.Event{RequestObject: &runtime.Unknown{Raw: []byte("a: yaml")}}
	if got := string(appendEvent(nil, ev)); !strings.Contains(got, `"requestObject":"a: yaml"`) {
		t.Error(got)
	}
}

func TestLegacyLine(t *testing.T) {
	ev := &auditv1.Event{AuditID: "id", Stage: "ResponseComplete", Verb: "get", RequestURI: "/x", UserAgent: "ua", SourceIPs: []string{"::1"},
		User: authenticationv1.UserInfo{Username: "a", Groups: []string{"g", "h"}}, ResponseStatus: &metav1.Status{Code: 200}, RequestReceivedTimestamp: metav1.NewMicroTime(now)}
	want := `2026-01-02T03:04:05.000006Z AUDIT: id="id" stage="ResponseComplete" ip="::1" method="get" user="a" groups="\"g\",\"h\"" as="<self>" asgroups="<lookup>" user-agent="ua" namespace="<none>" uri="/x" response="200"`
	if got := string(legacyLine(nil, ev)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

type failing struct{ bytes.Buffer }

func (*failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }
func (*failing) Close() error              { return nil }

// A file that is full becomes a compressed file beside a new one.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	out, err := LogFile{Path: filepath.Join(dir, "audit.log"), MaxSize: 1, MaxAge: 1, MaxBackups: 1, Compress: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	first, second := bytes.Repeat([]byte("a"), 700<<10), bytes.Repeat([]byte("b"), 700<<10)
	for _, text := range [][]byte{first, second} {
		if _, err := out.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "audit.log")); err != nil || !bytes.Equal(got, second) {
		t.Errorf("the new file has %d bytes, %v", len(got), err)
	}
	var old []string
	for end := time.Now().Add(time.Minute); len(old) != 1 || !strings.HasSuffix(old[0], ".log.gz"); time.Sleep(time.Millisecond) { // compressed in the background
		if time.Now().After(end) {
			t.Fatalf("beside the file: %v", old)
		}
		if old, err = filepath.Glob(filepath.Join(dir, "audit-*")); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Open(old[0])
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, first) {
		t.Errorf("the old file has %d bytes, %v", len(got), err)
	}
}

func TestLogTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "audit.log")
	out, err := LogFile{Path: path, MaxSize: 100}.Open()
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLog(out, "json", clock.RealClock{}, &Reporter{Log: discard()})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n := range 200 {
		wg.Go(func() { l.Process(&auditv1.Event{RequestURI: fmt.Sprint(n)}) })
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var ev auditv1.Event
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		seen[ev.RequestURI] = true
	}
	if info, err := os.Stat(path); len(seen) != 200 || err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%d lines, %v, %v", len(seen), info.Mode(), err)
	}
	bad, _ := NewLog(&failing{}, "json", clock.RealClock{}, &Reporter{Log: discard()})
	if (Blocking{Backend: bad, Strict: true}).Process(&auditv1.Event{}) || !(Blocking{Backend: bad}).Process(&auditv1.Event{}) {
		t.Error("only a strict backend refuses")
	}
	if _, err := NewLog(out, "xml", clock.RealClock{}, nil); err == nil {
		t.Error("a format that there is not")
	}
}

// Events that no request waits for are written with the next line, after a moment, or at the end.
func TestLogSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &counted{}
		l, _ := NewLog(out, "json", clock.RealClock{}, &Reporter{Log: discard()})
		b := Blocking{Backend: l}
		received, complete := &auditv1.Event{Stage: auditv1.StageRequestReceived}, &auditv1.Event{Stage: auditv1.StageResponseComplete}
		expect := func(what string, writes, lines int) {
			t.Helper()
			if synctest.Wait(); out.writes != writes || bytes.Count(out.Bytes(), []byte("\n")) != lines {
				t.Errorf("%s: %d writes, %d lines; want %d, %d", what, out.writes, bytes.Count(out.Bytes(), []byte("\n")), writes, lines)
			}
		}
		b.Process(received)
		expect("at once", 0, 0)
		b.Process(complete)
		expect("with the end", 1, 2)
		b.Process(received)
		time.Sleep(lateness)
		expect("after a moment", 2, 3)
		(Blocking{Backend: l, Strict: true}).Process(received)
		expect("strictly", 3, 4)
		b.Process(received)
		_ = l.Close()
		expect("at the end", 4, 5)
		time.Sleep(lateness)
	})
}

type counted struct {
	bytes.Buffer
	writes int
}

func (c *counted) Write(p []byte) (int, error) { c.writes++; return c.Buffer.Write(p) }
func (*counted) Close() error                  { return nil }

func TestTruncated(t *testing.T) {
	k := &kept{}
	tr := &Truncated{Backend: k, MaxEvent: 600, MaxBatch: 1000, Report: &Reporter{Log: discard()}}
	large := &runtime.Unknown{Raw: []byte(`"` + strings.Repeat("x", 600) + `"`)}
	tr.Process(
		&auditv1.Event{Level: auditv1.LevelRequest, RequestURI: "/a", RequestObject: large},
		&auditv1.Event{Level: auditv1.LevelMetadata, RequestURI: strings.Repeat("u", 700)},
		&auditv1.Event{Level: auditv1.LevelMetadata, RequestURI: "/b", UserAgent: strings.Repeat("u", 300)},
		&auditv1.Event{Level: auditv1.LevelMetadata, RequestURI: "/c", UserAgent: strings.Repeat("u", 300)},
	)
	if len(k.events) != 3 || k.events[0].RequestObject != nil || k.events[0].Annotations["audit.k8s.io/truncated"] != "true" || !reflect.DeepEqual(k.sizes, []int{2, 1}) {
		t.Errorf("%d events, batches %v", len(k.events), k.sizes)
	}
}

func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{}
		b := NewBatch(k, BatchOptions{Buffer: 10, MaxSize: 3, MaxWait: time.Second}, clock.RealClock{}, guarded(), &Reporter{Log: discard()})
		for range 4 {
			b.Process(&auditv1.Event{})
		}
		synctest.Wait()
		if got := k.batches(); !slices.Equal(got, []int{3}) {
			t.Errorf("a full batch is sent at once: %v", got)
		}
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if got := k.batches(); !slices.Equal(got, []int{3, 1}) {
			t.Errorf("another after a while: %v", got)
		}
		for range 12 {
			if !b.Process(&auditv1.Event{}) {
				t.Error("requests are never refused")
			}
		}
		if err := b.Close(); err != nil || !k.closed {
			t.Error(err, k.closed)
		}
		if len(k.events) < 14 {
			t.Errorf("%d events: what is buffered is kept at the end", len(k.events))
		}
		b.Process(&auditv1.Event{}) // too late, but no panic
		_ = b.Close()
	})
	full := NewBatch(&kept{}, BatchOptions{Buffer: 0, MaxSize: 1}, clock.RealClock{}, guarded(), &Reporter{Log: discard()})
	if !full.Process(&auditv1.Event{}, &auditv1.Event{}) {
		t.Error("requests are never refused")
	}
	_ = full.Close()
}

// guarded returns a guard that does not count panics.
func guarded() *guard.Guard { return guard.New(discard(), clock.RealClock{}, nil) }

// Batches are sent at the configured rate; at the end, the remaining ones are sent at once.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{}
		b := NewBatch(k, BatchOptions{Buffer: 20, MaxSize: 1, QPS: 2, Burst: 3}, clock.RealClock{}, guarded(), &Reporter{Log: discard()})
		for range 20 {
			b.Process(&auditv1.Event{})
		}
		for n, want := range []int{3, 5, 7} {
			if synctest.Wait(); len(k.batches()) != want {
				t.Errorf("after %d seconds: %d batches, want %d", n, len(k.batches()), want)
			}
			time.Sleep(time.Second)
		}
		began := time.Now()
		if err := b.Close(); err != nil || len(k.events) != 20 || time.Since(began) != 0 {
			t.Errorf("%d events, %v, closed after %v", len(k.events), err, time.Since(began))
		}
	})
}

// A webhook that is away holds the end for the grace, and not for all the pauses between its attempts: what is not taken by then is
// lost and counted. One that takes events holds nothing.
func TestEndBesideAbsentWebhook(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: s, user: u}}],
		clusters: [{name: s, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: u, user: {}}]}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	silent := func(context.Context, string, string) (net.Conn, error) { c, _ := net.Pipe(); return c, nil }
	for name, c := range map[string]struct {
		dial     utilnet.DialFunc
		parallel bool
		events   int
	}{
		"refused":                  {refused, true, 3},
		"refused, one after other": {refused, false, 3},
		"silent":                   {silent, true, 3},
		"silent, one after other":  {silent, false, 3},
		"nothing to send":          {refused, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				h, err := NewWebhook(file, c.dial, 10*time.Second, clock.RealClock{}, &Reporter{Log: slog.New(slog.NewTextHandler(&said, nil))})
				if err != nil {
					t.Fatal(err)
				}
				const grace = 15 * time.Second
				b := NewBatch(h, BatchOptions{Buffer: 10, MaxSize: 1, Parallel: c.parallel, Grace: grace}, clock.RealClock{}, guarded(), &Reporter{Log: discard()})
				for range c.events {
					b.Process(&auditv1.Event{})
				}
				synctest.Wait()
				want := grace
				if c.events == 0 {
					want = 0
				}
				began := time.Now()
				if err := b.Close(); err != nil || time.Since(began) != want {
					t.Errorf("closed after %v (%v), want %v", time.Since(began), err, want)
				}
				if (c.events > 0) != strings.Contains(said.String(), "audit") {
					t.Errorf("of %d events that nobody took the log says %q", c.events, said.String())
				}
			})
		})
	}
}

// shaky panics at the first batch.
type shaky struct {
	kept
	once sync.Once
}

func (s *shaky) Process(events ...*auditv1.Event) bool {
	s.once.Do(func() { panic("shaky") })
	return s.kept.Process(events...)
}

func TestBatchSurvivesPanics(t *testing.T) {
	for _, parallel := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &shaky{}
			b := NewBatch(s, BatchOptions{Buffer: 5, MaxSize: 1, Parallel: parallel}, clock.RealClock{}, guarded(), &Reporter{Log: discard()})
			b.Process(&auditv1.Event{})
			synctest.Wait()
			b.Process(&auditv1.Event{})
			if err := b.Close(); err != nil || len(s.events) != 1 {
				t.Errorf("%d events, %v", len(s.events), err)
			}
		})
	}
}

func TestWebhook(t *testing.T) {
	var bodies []string
	fails := 2
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/audit" || r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		if fails > 0 {
			fails--
			http.Error(w, `{"message":"not now"}`, http.StatusInternalServerError)
			return
		}
		bodies = append(bodies, string(data))
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"s","user":"u"}}],
		"clusters":[{"name":"s","cluster":{"server":"%s/audit","insecure-skip-tls-verify":true}}],"users":[{"name":"u","user":{"token":"secret"}}]}`, server.URL)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := NewWebhook(file, nil, time.Nanosecond, clock.RealClock{}, &Reporter{Log: discard()})
	if err != nil {
		t.Fatal(err)
	}
	if !h.Process(&auditv1.Event{TypeMeta: metav1.TypeMeta{Kind: "Event"}, AuditID: "1"}, &auditv1.Event{AuditID: "2"}) {
		t.Error("it is taken at the third attempt")
	}
	var list auditv1.EventList
	if err := json.Unmarshal([]byte(bodies[0]), &list); err != nil || list.Kind != "EventList" || len(list.Items) != 2 || list.Items[0].Kind != "" || list.Items[1].AuditID != "2" {
		t.Errorf("%s: %v", bodies[0], err)
	}
	fails = 5
	if h.Process(&auditv1.Event{}) {
		t.Error("it is never taken")
	}
	_ = h.Close()
	fails = 0
	if h.Process(&auditv1.Event{}) {
		t.Error("after closing")
	}
	if _, err := NewWebhook(filepath.Join(t.TempDir(), "none"), nil, 0, clock.RealClock{}, nil); err == nil {
		t.Error("a kubeconfig that is not there")
	}
}

// BenchmarkMetadata measures the cost of auditing a request at the level Metadata, to a log file.
func BenchmarkMetadata(b *testing.B) {
	out, err := LogFile{Path: filepath.Join(b.TempDir(), "audit.log"), MaxSize: 1000}.Open()
	if err != nil {
		b.Fatal(err)
	}
	l, _ := NewLog(out, "json", clock.RealClock{}, &Reporter{Log: discard()})
	a := &Auditor{Policy: parse(b, "rules: [{level: None, users: ['system:apiserver']}, {level: None, resources: [{group: x}]}, {level: Metadata}]"), Backend: Blocking{Backend: l}, Clock: clock.RealClock{}}
	r, facts := incoming("GET", "/api/v1/namespaces/ns/pods/x")
	b.ReportAllocs()
	for b.Loop() {
		facts.SetLevel(request.AuditUndecided)
		rec := a.Begin(r)
		rec.Received()
		request.AddAuditAnnotation(r.Context(), "authorization.k8s.io/decision", "allow")
		request.AddAuditAnnotation(r.Context(), "authorization.k8s.io/reason", `RBAC: allowed by ClusterRoleBinding "x" of ClusterRole "y" to ServiceAccount "z/z"`)
		rec.Complete(200, false)
	}
}
