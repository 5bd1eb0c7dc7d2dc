package chain

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/request"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// users authenticates by the Authorization header: "name,group,group".
type users struct{}

func (users) Authenticate(r *http.Request) (user.Info, bool, error) {
	header := r.Header.Get("Authorization")
	if header == "bad" {
		return nil, false, errors.New("bad credentials")
	}
	if header == "" {
		return nil, false, nil
	}
	parts := strings.Split(header, ",")
	return &user.DefaultInfo{Name: parts[0], Groups: parts[1:]}, true, nil
}

// policy allows a user's requests by "verb resource name" or "verb path".
type policy map[string][]string

func (p policy) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	if a.User.GetName() == "broken" {
		return authz.NoOpinion, "", errors.New("broken")
	}
	what := strings.TrimSpace(a.Verb + " " + describe(a))
	for _, allowed := range p[a.User.GetName()] {
		if ok, _ := regexp.MatchString("^("+allowed+")$", what); ok {
			return authz.Allow, "", nil
		}
	}
	return authz.NoOpinion, "", nil
}

func describe(a *authz.Attributes) string {
	if !a.IsResource {
		return a.Path
	}
	resource := a.Resource
	if a.Group != "" {
		resource += "." + a.Group
	}
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	return strings.TrimSpace(resource + " " + strings.TrimLeft(a.Namespace+"/"+a.Name, "/"))
}

func config(h http.HandlerFunc) Config {
	return Config{
		Handler: h, Authenticator: users{}, Authorizer: policy{"alice": {".*"}},
		Log: discard(), Clock: clocktesting.NewFakePassiveClock(now), NewAuditID: func() string { return "id" }, Page: longProfiles,
	}
}

// longProfiles has the only pages of these tests that take long.
func longProfiles(path string) request.Page {
	return request.Page{LongRunning: strings.HasPrefix(path, "/debug/pprof/")}
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }

// send serves one request of "METHOD /path" with headers "Name: value".
func send(h http.Handler, what string, headers ...string) *httptest.ResponseRecorder {
	method, target, _ := strings.Cut(what, " ")
	r := httptest.NewRequest(method, target, nil)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func reason(t *testing.T, w *httptest.ResponseRecorder) metav1.StatusReason {
	t.Helper()
	var status metav1.Status
	if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	if int(status.Code) != w.Code {
		t.Errorf("code %d in the header, %d in the status", w.Code, status.Code)
	}
	return status.Reason
}

func TestOrder(t *testing.T) {
	pass := func(next Handler) Handler { return next }
	c := config(ok)
	c.HSTS, c.CORS, c.InFlight, c.SendRetryAfter = []string{"max-age=1"}, []*regexp.Regexp{regexp.MustCompile(".")}, &InFlight{}, make(chan struct{})
	c.Metrics, c.Recorder, c.Tracing, c.OwnRequests, c.FlowControl = pass, pass, pass, pass, pass
	c.GoawayChance, c.Watches, c.LogAccess = 0.01, NewWatches(), func() bool { return false }
	c.Auditor, c.OriginCheck = &audit.Auditor{}, true
	want := []string{
		"audit ID", "panic recovery", "received timestamp", "request info", "latency", "metrics", "flight recorder", "access log", "retry after", "HSTS",
		"cache control", "goaway", "watch termination", "in flight", "deadline", "warnings", "CORS", "authentication", "tracing", "own requests", "audit",
		"origin", "impersonation", "flow control", "authorization",
	}
	got := Order(c)
	t.Logf("the chain, outermost first: %s", strings.Join(got, " → "))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	least := []string{
		"audit ID", "panic recovery", "received timestamp", "request info", "latency", "cache control", "deadline", "warnings",
		"authentication", "impersonation", "authorization",
	}
	if got := Order(config(ok)); !reflect.DeepEqual(got, least) {
		t.Errorf("at least: got %q\nwant %q", got, least)
	}
}

func TestWhole(t *testing.T) {
	var seen *http.Request
	h := New(config(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		request.AddWarning(r.Context(), "mind the gap")
		ok(w, r)
	}))
	w := send(h, "GET /api/v1/namespaces/a/pods/x", "Authorization: alice", "X-Remote-User: eve", "Audit-ID: mine")
	if w.Code != http.StatusOK || w.Body.String() != "ok" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for name, want := range map[string]string{
		"Audit-Id": "mine", "Cache-Control": "no-cache, private", "Warning": `299 - "mind the gap"`,
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	ctx := seen.Context()
	if request.UserFrom(ctx).GetName() != "alice" || request.InfoFrom(ctx).Name != "x" || request.AuditIDFrom(ctx) != "mine" || !request.ReceivedFrom(ctx).Equal(now) {
		t.Errorf("context: %v %+v", request.UserFrom(ctx), request.InfoFrom(ctx))
	}
	if _, ok := ctx.Deadline(); !ok {
		t.Error("no deadline")
	}
	if len(seen.Header.Values("Authorization"))+len(seen.Header.Values("X-Remote-User")) > 0 {
		t.Errorf("credentials went on: %v", seen.Header)
	}
}

func BenchmarkChain(b *testing.B) {
	c := config(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	c.Authorizer, c.InFlight, c.MaxReading, c.MaxWriting = authz.AlwaysAllow{}, &InFlight{}, 400, 200
	h := New(c)
	r := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/a/pods/x", nil)
	w := &nothing{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		r.Header["Authorization"] = []string{"alice"}
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}

// nothing is a ResponseWriter that costs nothing.
type nothing struct{ header http.Header }

func (w *nothing) Header() http.Header            { return w.header }
func (w *nothing) Write(data []byte) (int, error) { return len(data), nil }
func (w *nothing) WriteHeader(int)                {}
