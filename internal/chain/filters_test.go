package chain

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
)

func TestRecover(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		code    int
		aborted bool
		counted int
	}{
		{"no panic", ok, 200, false, 0},
		{"before an answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "7")
			panic("x")
		}, 500, false, 1},
		{"within an answer", func(w http.ResponseWriter, r *http.Request) { ok(w, r); panic("x") }, 200, true, 1},
		{"abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, true, 0},
		{"wrapped abort", func(http.ResponseWriter, *http.Request) { panic(fmt.Errorf("x: %w", http.ErrAbortHandler)) }, 0, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			counted := 0
			h := Filter(begin).Then(Recover(discard(), func(*http.Request) { counted++ }, WriteStatus).Then(c.handler))
			w := httptest.NewRecorder()
			aborted := func() (aborted bool) {
				defer func() { aborted = errors.Is(asError(recover()), http.ErrAbortHandler) }()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				return false
			}()
			if aborted != c.aborted || counted != c.counted || c.code != 0 && w.Code != c.code {
				t.Errorf("aborted %v, counted %d, code %d", aborted, counted, w.Code)
			}
			if c.code == 500 && reason(t, w) != metav1.StatusReasonInternalError {
				t.Errorf("%s", w.Body)
			}
			if c.code == 500 && w.Header().Get("Content-Length") == "7" {
				t.Error("a header of the handler stayed")
			}
		})
	}
}

func asError(v any) error {
	err, _ := v.(error)
	return err
}

func TestInfoOfSenselessPath(t *testing.T) {
	if w := send(New(config(ok)), "GET /api/v1/watch", "Authorization: alice"); w.Code != http.StatusInternalServerError || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestAuditID(t *testing.T) {
	for header, want := range map[string]string{"": "made", "theirs": "theirs"} {
		got := ""
		h := AuditID(func() string { return "made" }, false).Then(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = request.AuditIDFrom(r.Context())
		}))
		if w := send(h, "GET /", "Audit-ID: "+header); got != want || w.Header().Get("Audit-ID") != want {
			t.Errorf("%q: %q, told %q", header, got, w.Header().Get("Audit-ID"))
		}
	}
}

func TestHeaders(t *testing.T) {
	if HSTS(nil) != nil {
		t.Error("HSTS without directives")
	}
	h := CacheControl().Then(HSTS([]string{"max-age=1", "preload"}).Then(http.HandlerFunc(ok)))
	w := send(h, "GET /")
	if w.Header().Get("Strict-Transport-Security") != "max-age=1; preload" || w.Header().Get("Cache-Control") != "no-cache, private" {
		t.Errorf("%v", w.Header())
	}
}

func TestCORS(t *testing.T) {
	h := CORS([]*regexp.Regexp{regexp.MustCompile(`^https://a\.example$`)}).Then(http.HandlerFunc(ok))
	for _, c := range []struct {
		request, origin string
		code            int
		allowed         string
	}{
		{"GET /", "", 200, ""},
		{"GET /", "https://a.example", 200, "https://a.example"},
		{"GET /", "https://b.example", 200, ""},
		{"OPTIONS /", "https://a.example", 204, "https://a.example"},
		{"OPTIONS /", "https://b.example", 200, ""},
	} {
		w := send(h, c.request, "Origin: "+c.origin)
		if w.Code != c.code || w.Header().Get("Access-Control-Allow-Origin") != c.allowed {
			t.Errorf("%s by %q: %d %v", c.request, c.origin, w.Code, w.Header())
		}
	}
}

func TestWarnings(t *testing.T) {
	long := strings.Repeat("ä", 1000)
	for _, c := range []struct {
		name  string
		texts []string
		write bool
		want  int
		runes int // of the first
	}{
		{"none", nil, true, 0, 0},
		{"some", []string{"a", "b", "a"}, true, 2, 1},
		{"without a body", []string{"a"}, false, 1, 1},
		{"long", []string{long}, true, 1, 1000},
		{"too long together", []string{long + "1", long + "2", long + "3", long + "4", long + "5"}, true, 5, 256},
		{"too many", many(100, long), true, 16, 256},
	} {
		h := Filter(Warnings).Then(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for _, text := range c.texts {
				request.AddWarning(r.Context(), text)
			}
			if c.write {
				ok(w, r)
			}
			request.AddWarning(r.Context(), "late")
		}))
		got := send(h, "GET /").Result().Header.Values("Warning")
		want := c.want
		if !c.write {
			want++ // nothing was late
		}
		if len(got) != want {
			t.Errorf("%s: %d warnings, want %d", c.name, len(got), want)
		}
		if len(got) > 0 && len([]rune(got[0])) != c.runes+len(`299 - ""`) {
			t.Errorf("%s: %q has %d runes", c.name, got[0], len([]rune(got[0])))
		}
	}
}

func many(n int, text string) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%d%s", i, text))
	}
	return all
}

func TestDeadline(t *testing.T) {
	for _, c := range []struct {
		request string
		want    time.Duration // 0: none
		code    int
	}{
		{"GET /api", time.Minute, 200},
		{"GET /api?timeout=5s", 5 * time.Second, 200},
		{"GET /api?timeout=5h", time.Minute, 200},
		{"GET /api?timeout=0s", time.Minute, 200},
		{"GET /api?timeout=-1s", time.Minute, 200},
		{"GET /api?timeout=", time.Minute, 200},
		{"GET /api?timeoutSeconds=5", time.Minute, 200},
		{"GET /api?timeout=x", 0, 400},
		{"GET /api/v1/pods?watch=1&timeout=5s", 0, 200},
		{"GET /api/v1/namespaces/a/pods/x/log", 0, 200},
		{"POST /api/v1/namespaces/a/pods/x/exec", 0, 200},
		{"GET /debug/pprof/profile", 0, 200},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got time.Duration
			h := Received(clock.RealClock{}).Then(Info(longProfiles, false, extensions.Set{}).Then(Deadline(0, clock.RealClock{}, WriteStatus, WriteStatus).Then(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if end, ok := r.Context().Deadline(); ok {
					got = time.Until(end)
				}
				ok(w, r)
			}))))
			if w := send(h, c.request); w.Code != c.code || got != c.want {
				t.Errorf("%s: %d, %s left, want %s", c.request, w.Code, got, c.want)
			}
		})
	}
}

func TestDeadlinePasses(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(w http.ResponseWriter, before bool)
		code  int
	}{
		{"no answer", func(http.ResponseWriter, bool) {}, 504},
		{"an answer begun before", func(w http.ResponseWriter, before bool) {
			if before {
				w.WriteHeader(201)
			}
		}, 201},
		{"a late answer", func(w http.ResponseWriter, before bool) {
			if !before {
				w.WriteHeader(202)
			}
		}, 202},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := Info(longProfiles, false, extensions.Set{}).Then(Deadline(time.Second, clock.RealClock{}, WriteStatus, WriteStatus).Then(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c.write(w, true)
				<-r.Context().Done()
				c.write(w, false)
			})))
			w := send(h, "GET /api")
			if w.Code != c.code || c.code == 504 && reason(t, w) != metav1.StatusReasonTimeout {
				t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
			}
		})
	}
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inFlight := &InFlight{}
		release := make(chan struct{})
		h := Info(longProfiles, false, extensions.Set{}).Then(WaitGroup(inFlight, WriteStatus).Then(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" || request.InfoFrom(r.Context()).Verb == "watch" {
				<-release
			}
			ok(w, r)
		})))
		go send(h, "GET /slow")
		go send(h, "GET /api/v1/pods?watch=1")
		synctest.Wait()
		drained := false
		go func() {
			if err := inFlight.Drain(context.WithoutCancel(t.Context())); err == nil {
				drained = true
			}
		}()
		synctest.Wait()
		if drained {
			t.Error("did not wait for a request")
		}
		w := send(h, "GET /api")
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || reason(t, w) != metav1.StatusReasonServiceUnavailable {
			t.Errorf("while draining: %d %v", w.Code, w.Header())
		}
		if w := send(h, "GET /readyz"); w.Code != http.StatusOK {
			t.Errorf("health while draining: %d", w.Code)
		}
		close(release)
		synctest.Wait()
		if !drained {
			t.Error("still waits when all is done")
		}
	})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	f := &InFlight{}
	f.enter()
	if err := f.Drain(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("with no time: %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	gone := make(chan struct{})
	h := RetryAfter(gone, WriteStatus).Then(http.HandlerFunc(ok))
	if w := send(h, "GET /api"); w.Code != http.StatusOK {
		t.Errorf("before: %d", w.Code)
	}
	close(gone)
	if w := send(h, "GET /api"); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "5" || w.Header().Get("Connection") != "close" {
		t.Errorf("after: %d %v", w.Code, w.Header())
	}
	for _, r := range []string{"GET /livez/ping", "GET /metrics"} {
		if w := send(h, r); w.Code != http.StatusOK {
			t.Errorf("%s: %d", r, w.Code)
		}
	}
	if w := send(h, "GET /api", "User-Agent: kube-apiserver/v1.36"); w.Code != http.StatusOK {
		t.Errorf("a server's own: %d", w.Code)
	}
}

func TestAuthentication(t *testing.T) {
	for _, c := range []struct {
		name, header string
		proto        int
		code         int
		close        bool
	}{
		{"known", "alice", 2, 200, false},
		{"nobody", "", 1, 401, false},
		{"nobody by HTTP/2", "", 2, 401, true},
		{"bad by HTTP/2", "bad", 2, 401, true},
		{"anonymous by HTTP/2", "system:anonymous,system:unauthenticated", 2, 200, true},
		{"anonymous", "system:anonymous,system:unauthenticated", 1, 200, false},
	} {
		var passed *http.Request
		h := Authentication(users{}, authn.HeaderNames{Username: []string{"X-Custom"}}, discard(), WriteStatus).Then(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { passed = r }))
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.ProtoMajor = c.proto
		r.Header = http.Header{"Authorization": {c.header}, "X-Remote-Extra-A": {"b"}, "X-Custom": {"c"}, "Accept": {"d"}}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.code || (w.Header().Get("Connection") == "close") != c.close {
			t.Errorf("%s: %d %v", c.name, w.Code, w.Header())
		}
		switch {
		case c.code == 401 && (passed != nil || reason(t, w) != metav1.StatusReasonUnauthorized):
			t.Errorf("%s: %s", c.name, w.Body)
		case c.code == 200 && len(passed.Header) != 1:
			t.Errorf("%s: passed on %v", c.name, passed.Header)
		}
	}
}

func TestAuthorization(t *testing.T) {
	c := config(ok)
	c.Authorizer = policy{"bob": {"get pods a/x", "get /version"}}
	h := New(c)
	for _, q := range []struct {
		request, user string
		code          int
	}{
		{"GET /api/v1/namespaces/a/pods/x", "bob", 200},
		{"GET /version", "bob", 200},
		{"GET /api/v1/namespaces/a/pods/y", "bob", 403},
		{"DELETE /api/v1/namespaces/a/pods/x", "bob", 403},
		{"GET /api/v1/namespaces/a/pods/x", "broken", 500},
	} {
		w := send(h, q.request, "Authorization: "+q.user)
		if w.Code != q.code {
			t.Errorf("%s by %s: %d %s", q.request, q.user, w.Code, w.Body)
		}
		if q.code == 403 && (reason(t, w) != metav1.StatusReasonForbidden || w.Header().Get("X-Content-Type-Options") != "nosniff") {
			t.Errorf("%s by %s: %v", q.request, q.user, w.Header())
		}
	}
}

// A client that goes away makes everything fail, which is no error of the
// server's; one that waits for too long is told so.
func TestAuthorizationIsInterrupted(t *testing.T) {
	for _, c := range []struct {
		name, logged, reason string
		ctx                  func(context.Context) (context.Context, context.CancelFunc)
	}{
		{"goes on", "ERROR", "", context.WithCancel},
		{"canceled", "DEBUG", "", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}},
		{"timed out", "ERROR", "Timeout", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithDeadline(ctx, time.Unix(1, 0))
		}},
	} {
		var text strings.Builder
		log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
		h := Info(longProfiles, false, extensions.Set{}).Then(Authentication(users{}, authn.HeaderNames{}, log, WriteStatus).Then(Authorization(policy{}, log, WriteStatus).Then(http.HandlerFunc(ok))))
		ctx, cancel := c.ctx(t.Context())
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/api", nil)
		r.Header.Set("Authorization", "broken")
		h.ServeHTTP(w, r.WithContext(ctx))
		cancel()
		if !strings.Contains(text.String(), "level="+c.logged+" ") || string(reason(t, w)) != c.reason && c.reason != "" {
			t.Errorf("%s: %s%s", c.name, &text, w.Body)
		}
	}
}

func TestMaxInFlight(t *testing.T) {
	if MaxInFlight(0, 0) != nil {
		t.Error("a filter without a bound")
	}
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := Info(longProfiles, false, extensions.Set{}).Then(MaxInFlight(1, 1).Then(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Slow") != "" {
				<-release
			}
			ok(w, r)
		})))
		as := func(groups ...string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: "u", Groups: groups})))
			})
		}
		go send(as(), "GET /api/v1/pods", "Slow: 1")
		synctest.Wait()
		for _, c := range []struct {
			name, request string
			h             http.Handler
			code          int
		}{
			{"another read", "GET /api/v1/pods", as(), 429},
			{"a read of a master", "GET /api/v1/pods", as("system:masters"), 200},
			{"a write", "POST /api/v1/pods", as(), 200},
			{"a watch", "GET /api/v1/pods?watch=1", as(), 200},
		} {
			w := send(c.h, c.request)
			if w.Code != c.code || c.code == 429 && w.Header().Get("Retry-After") != "1" {
				t.Errorf("%s: %d %v", c.name, w.Code, w.Header())
			}
		}
		close(release)
		synctest.Wait()
		if w := send(as(), "GET /api/v1/pods"); w.Code != 200 {
			t.Errorf("after: %d", w.Code)
		}
	})
}

// A connection must be given to who asks for it, and flushing must reach it,
// through everything that wraps the writer.
func TestResponseKeepsItsPowers(t *testing.T) {
	server := httptest.NewServer(New(config(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/flush" {
			w.(http.Flusher).Flush()
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
			return
		}
		conn, buffer, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = buffer.WriteString("HTTP/1.1 101 Switching Protocols\r\n\r\n")
		_ = buffer.Flush()
		_ = conn.Close()
	})))
	defer server.Close()
	for path, want := range map[string]string{"/flush": "200", "/hijack": "101"} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: alice\r\n\r\n", path)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(line, want) {
			t.Errorf("%s: %q, %v", path, line, err)
		}
		_ = conn.Close()
	}
}

func FuzzInfo(f *testing.F) {
	for _, path := range []string{
		"/api/v1/namespaces/a/pods/x/log", "/apis/apps/v1/deployments?watch=1&fieldSelector=metadata.name%3Dx",
		"/api/v1/watch", "/api/v1/proxy/nodes/x", "//api/v1", "/apis/a", "/api/v1/namespaces/a/finalize", "/",
	} {
		f.Add("GET", path)
	}
	f.Fuzz(func(t *testing.T, method, target string) {
		r, err := http.NewRequest(method, target, nil)
		if err != nil {
			return
		}
		i, err := request.NewInfo(r)
		if err != nil {
			return
		}
		// What is authorized as a resource must name one.
		if i.IsResource && len(i.Parts) == 0 {
			t.Errorf("%s %q: %+v", method, target, i)
		}
		if i.Path != r.URL.Path {
			t.Errorf("%s %q is about %q", method, target, i.Path)
		}
	})
}
