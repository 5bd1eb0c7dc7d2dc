package chain

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/extensions"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

func TestGoaway(t *testing.T) {
	if Goaway(0, nil) != nil {
		t.Error("a filter without a chance")
	}
	for _, c := range []struct {
		proto int
		draw  float64
		want  string
	}{{2, 0.001, "close"}, {2, 0.5, ""}, {1, 0.001, ""}} {
		h := Goaway(0.01, func() float64 { return c.draw }).Then(http.HandlerFunc(ok))
		w := send(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.ProtoMajor = c.proto
			h.ServeHTTP(w, r)
		}), "GET /api")
		if got := w.Header().Get("Connection"); got != c.want {
			t.Errorf("HTTP/%d, %v: %q", c.proto, c.draw, got)
		}
	}
}

func TestWatchesEndOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewWatches()
		began := time.Now()
		ended := make(chan time.Duration, 10)
		h := Info(longProfiles, false, extensions.Set{}).Then(WatchTermination(s, WriteStatus).Then(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if request.InfoFrom(r.Context()).Verb == "watch" {
				<-r.Context().Done()
				ended <- time.Since(began)
			}
		})))
		for range 4 {
			go send(h, "GET /api/v1/pods?watch=1")
		}
		synctest.Wait()
		s.End(8*time.Second, clock.RealClock{})
		synctest.Wait()
		for n := range 4 {
			if got, want := <-ended, time.Duration(n)*2*time.Second; got != want {
				t.Errorf("watch %d ended after %s, want %s", n, got, want)
			}
		}
		if w := send(h, "GET /api/v1/pods?watch=1"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("a new one: %d", w.Code)
		}
		if w := send(h, "GET /api/v1/pods"); w.Code != http.StatusOK {
			t.Errorf("another request: %d", w.Code)
		}
	})
}

func TestAccessLog(t *testing.T) {
	var text bytes.Buffer
	verbose := false
	c := config(func(w http.ResponseWriter, r *http.Request) {
		request.Spend(r.Context(), request.LayerStorage, time.Second)
		w.WriteHeader(http.StatusTeapot)
	})
	c.Log, c.LogAccess = slog.New(slog.NewTextHandler(&text, nil)), func() bool { return verbose }
	h := New(c)
	send(h, "GET /api/v1/pods?limit=1", "Authorization: alice")
	if text.Len() > 0 {
		t.Errorf("unasked: %s", &text)
	}
	verbose = true
	send(h, "GET /api/v1/pods?limit=1", "Authorization: alice", "User-Agent: me")
	for _, want := range []string{`msg=HTTP verb=LIST URI="/api/v1/pods?limit=1"`, "userAgent=me", "audit-ID=id", "etcd=1s", "resp=418"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s not in %s", want, &text)
		}
	}
	if strings.Contains(text.String(), "alice") {
		t.Errorf("credentials in %s", &text)
	}
}

// Slow requests are logged where information is, but for those that last by nature.
func TestSlowRequests(t *testing.T) {
	for _, c := range []struct {
		level   slog.Level
		request string
		took    time.Duration
		logged  bool
	}{
		{slog.LevelInfo, "GET /api/v1/pods", time.Second, true},
		{slog.LevelInfo, "GET /api/v1/pods", slowFrom, false},
		{slog.LevelInfo, "GET /api/v1/pods?watch=1", time.Second, false},
		{slog.LevelWarn, "GET /api/v1/pods", time.Second, false},
	} {
		var text bytes.Buffer
		clk := clocktesting.NewFakeClock(time.Unix(0, 0))
		cfg := config(func(http.ResponseWriter, *http.Request) { clk.Step(c.took) })
		cfg.Clock, cfg.LogAccess = clk, func() bool { return false }
		cfg.Log = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: c.level}))
		send(New(cfg), c.request, "Authorization: alice")
		if logged := strings.Contains(text.String(), `msg="slow request" verb=LIST`); logged != c.logged {
			t.Errorf("%+v: logged %q", c, &text)
		}
	}
}

// list is an audit backend that keeps a line for each event.
type list struct{ lines []string }

func (l *list) Process(events ...*auditv1.Event) bool {
	for _, e := range events {
		line := string(e.Stage)
		if e.ResponseStatus != nil {
			line = fmt.Sprintf("%s %d %s", e.Stage, e.ResponseStatus.Code, e.ResponseStatus.Message)
		}
		if d := e.Annotations["authorization.k8s.io/decision"]; d != "" {
			line += " " + d
		}
		l.lines = append(l.lines, strings.Join(strings.Fields(line), " "))
	}
	return true
}

func (*list) Close() error { return nil }

func TestAuditStages(t *testing.T) {
	p, err := audit.ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, nonResourceURLs: [/quiet]}, {level: Metadata}]"), discard())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct{ request, user, want string }{
		{"GET /api/v1/pods", "alice", "RequestReceived, ResponseComplete 200 allow"},
		{"GET /api/v1/pods?watch=1", "alice", "RequestReceived, ResponseStarted 200 allow, ResponseComplete 200 allow"},
		{"GET /quiet", "alice", ""},
		{"GET /panic", "alice", "RequestReceived, Panic 500 APIServer panic'd: oh allow"},
		{"GET /api/v1/pods", "bob", "RequestReceived, ResponseComplete 403 forbid"},
		{"GET /api/v1/pods", "bad", "ResponseStarted 401 Authentication failed, no credentials provided"},
		{"GET /api/v1/pods?timeout=x", "alice", `ResponseStarted 400 invalid timeout specified in the request URL - time: invalid duration "x"`},
		{"GET /nothing", "alice", "RequestReceived, ResponseComplete 200 Connection closed early allow"},
	} {
		l := &list{}
		c := config(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/panic":
				panic("oh")
			case "/nothing":
			default:
				ok(w, r)
			}
		})
		c.Auditor = &audit.Auditor{Policy: p, Backend: l, Clock: clocktesting.NewFakePassiveClock(now)}
		send(New(c), q.request, "Authorization: "+q.user)
		if got := strings.Join(l.lines, ", "); got != q.want {
			t.Errorf("%s by %s:\ngot  %s\nwant %s", q.request, q.user, got, q.want)
		}
	}
}

func TestAuditRefuses(t *testing.T) {
	p, _ := audit.ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]"), discard())
	served := false
	c := config(func(http.ResponseWriter, *http.Request) { served = true })
	c.Auditor = &audit.Auditor{Policy: p, Backend: refusing{}, Clock: clocktesting.NewFakePassiveClock(now)}
	if w := send(New(c), "GET /api/v1/pods", "Authorization: alice"); w.Code != http.StatusInternalServerError || served {
		t.Errorf("%d %s, served: %v", w.Code, w.Body, served)
	}
}

type refusing struct{}

func (refusing) Process(...*auditv1.Event) bool { return false }
func (refusing) Close() error                   { return nil }

func TestFiltersAreMeasured(t *testing.T) {
	got := map[string]int{}
	c := config(ok)
	c.OnFilter = func(filter string) func(time.Duration) {
		return func(time.Duration) { got[filter]++ }
	}
	h := New(c)
	send(h, "GET /api", "Authorization: alice")
	send(h, "GET /api", "Authorization: bad")
	send(h, "GET /api", "Authorization: bob")
	if got["authentication"] != 3 || got["constrainedimpersonation"] != 2 || got["authorization"] != 2 {
		t.Errorf("%v", got)
	}
}

// slowUsers authenticates in a second, and slowPolicy decides in three.
type slowUsers struct{ clock *clocktesting.FakeClock }

func (u slowUsers) Authenticate(r *http.Request) (user.Info, bool, error) {
	u.clock.Step(time.Second)
	return users{}.Authenticate(r)
}

type slowPolicy struct{ clock *clocktesting.FakeClock }

func (p slowPolicy) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	p.clock.Step(3 * time.Second)
	if a.User.GetName() == "alice" {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
}

// A filter's time ends when it passes a request on or has answered it. Time in the handler and in filters that are not
// measured is nobody's.
func TestFilterTimes(t *testing.T) {
	clk := clocktesting.NewFakeClock(now)
	slow := func(before, after time.Duration) Filter {
		return func(next Handler) Handler {
			return func(w http.ResponseWriter, r *http.Request) {
				clk.Step(before)
				next(w, r)
				clk.Step(after)
			}
		}
	}
	got, layer := map[string]time.Duration{}, time.Duration(0)
	c := config(func(w http.ResponseWriter, r *http.Request) {
		clk.Step(time.Minute)
		layer = request.LatencyFrom(r.Context()).Of(request.LayerAuthorization)
	})
	c.Clock, c.Authenticator, c.Authorizer = clk, slowUsers{clk}, slowPolicy{clk}
	c.Tracing, c.FlowControl = slow(time.Hour, time.Hour), slow(2*time.Second, time.Hour)
	c.OnFilter = func(filter string) func(time.Duration) {
		return func(d time.Duration) { got[filter] += d }
	}
	h := New(c)
	for user, want := range map[string]map[string]time.Duration{
		"alice": {"authentication": time.Second, "constrainedimpersonation": 0, "priorityandfairness": 2 * time.Second, "authorization": 3 * time.Second},
		"bob":   {"authentication": time.Second, "constrainedimpersonation": 0, "priorityandfairness": 2 * time.Second, "authorization": 3 * time.Second},
		"bad":   {"authentication": time.Second},
	} {
		clear(got)
		send(h, "GET /debug/pprof/x", "Authorization: "+user)
		if !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", user, got, want)
		}
	}
	if layer != 3*time.Second {
		t.Errorf("authorization took %s by the request's latency", layer)
	}
}
