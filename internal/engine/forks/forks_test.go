package forks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"

	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
)

// plane notes what is asked of it.
type plane struct {
	mu      sync.Mutex
	running bool
	starts  int
	asked   []string
}

func (p *plane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u, _, _ := inprocess.Authenticator{}.Authenticate(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		panic("it does not run")
	}
	if request.InfoFrom(r.Context()) != nil {
		panic("it knows what the other server's filters know")
	}
	p.asked = append(p.asked, fmt.Sprintf("%s %s %s by %s", r.Method, r.URL.EscapedPath(), r.RequestURI, u.GetName()))
}

func (p *plane) Start(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		p.starts++
	}
	p.running = true
	return nil
}

func (p *plane) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

func (p *plane) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
	return nil
}

func (p *plane) Changes() []bundlev1.Other {
	return []bundlev1.Other{{Resource: "pods", Name: "x", Result: bundlev1.Created}}
}

func (p *plane) Since() int64 { return 7 }

type given struct {
	t *testing.T
	*Forks
	clock  *clocktesting.FakeClock
	planes map[string]*plane
}

func begin(t *testing.T) *given {
	g := &given{t: t, clock: clocktesting.NewFakeClock(time.Unix(1e9, 0)), planes: map[string]*plane{}}
	g.Forks = New(Config{Clock: g.clock, Log: slog.New(slog.DiscardHandler), New: func(_ context.Context, name, _ string) (Plane, error) {
		g.planes[name] = &plane{}
		return g.planes[name], nil
	}})
	return g
}

// ask sends a request as alice. It returns the answer and the code of the refusal, 0 if there was none.
func (g *given) ask(method, target string) (body string, refused int32) {
	g.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(""))
	ctx := request.WithInfo(r.Context(), &request.Info{})
	r = r.WithContext(request.WithUser(ctx, &user.DefaultInfo{Name: "alice"}))
	w := httptest.NewRecorder()
	if err := g.Serve(w, r); err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			g.t.Fatal(err)
		}
		return status.Status().Message, status.Status().Code
	}
	return w.Body.String(), 0
}

// A fork is made, listed, asked, looked at and ended.
func TestLife(t *testing.T) {
	g := begin(t)
	if body, code := g.ask(http.MethodPost, "/forks/a?ttl=30m"); code != 0 || !strings.Contains(body, `"creator":"alice"`) {
		t.Fatal(body, code)
	}
	for _, q := range []struct {
		method, target string
		code           int32
	}{
		{http.MethodPost, "/forks/a", 409}, {http.MethodPost, "/forks/A", 400}, {http.MethodPost, "/forks/..", 400}, {http.MethodPost, "/forks/b?ttl=0s", 400},
		{http.MethodPost, "/forks/b?ttl=forever", 400}, {http.MethodPost, "/forks/b?ttl=200h", 400}, {http.MethodPost, "/forks", 405}, {http.MethodPut, "/forks/a", 405},
		{http.MethodGet, "/forks/b", 404}, {http.MethodGet, "/forks/b/api", 404}, {http.MethodDelete, "/forks/b", 404}, {http.MethodGet, "/forks/%61/api/x%2fy", 400},
	} {
		if body, code := g.ask(q.method, q.target); code != q.code {
			t.Errorf("%s %s: %d %s, want %d", q.method, q.target, code, body, q.code)
		}
	}
	var list struct{ Items []Info }
	body, _ := g.ask(http.MethodGet, "/forks")
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Items) != 1 || list.Items[0].ResourceVersion != "7" || list.Items[0].Expires.Sub(list.Items[0].Created) != 30*time.Minute {
		t.Errorf("%s, %v", body, err)
	}
	if body, code := g.ask(http.MethodGet, "/forks/a"); code != 0 || !strings.Contains(body, `"name":"x"`) {
		t.Error(body, code)
	}
	_, _ = g.ask(http.MethodGet, "/forks/a/api/v1/pods?watch=1")
	_, _ = g.ask(http.MethodPost, "/forks/a/api/x%2Fy")
	_, _ = g.ask(http.MethodGet, "/forks/a/")
	want := "[GET /api/v1/pods /api/v1/pods?watch=1 by alice POST /api/x%2Fy /api/x%2Fy by alice GET / / by alice]"
	if got := fmt.Sprint(g.planes["a"].asked); got != want {
		t.Errorf("it was asked\n%s, want\n%s", got, want)
	}
	if body, code := g.ask(http.MethodDelete, "/forks/a"); code != 0 || g.planes["a"].Running() {
		t.Error(body, code)
	}
}

// A fork that nobody uses stops, and starts again when it is asked; one whose time is over ends; and all end with the server.
func TestRest(t *testing.T) {
	g := begin(t)
	_, _ = g.ask(http.MethodPost, "/forks/a?ttl=10m")
	_, _ = g.ask(http.MethodGet, "/forks/a/api")
	g.clock.Step(idle)
	g.look()
	if !g.planes["a"].Running() {
		t.Error("it stopped too soon")
	}
	p, err := g.enter(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	g.clock.Step(2 * idle)
	if g.look(); !g.planes["a"].Running() {
		t.Error("it stopped under a request")
	}
	g.leave(p)
	g.clock.Step(idle + 1)
	if g.look(); g.planes["a"].Running() {
		t.Error("it did not stop")
	}
	_, _ = g.ask(http.MethodGet, "/forks/a/api")
	if g.planes["a"].starts != 2 {
		t.Errorf("it was started %d times", g.planes["a"].starts)
	}
	g.clock.Step(10 * time.Minute)
	g.look()
	if _, code := g.ask(http.MethodGet, "/forks/a"); code != 404 || g.planes["a"].Running() {
		t.Error("it did not end")
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, _ = g.ask(http.MethodPost, "/forks/b")
	_, _ = g.ask(http.MethodGet, "/forks/b/api")
	cancel()
	g.Run(ctx)
	if _, code := g.ask(http.MethodPost, "/forks/c"); code != 503 || g.planes["b"].Running() {
		t.Errorf("after the end: %d", code)
	}
}

func TestMost(t *testing.T) {
	g := begin(t)
	for n := range most {
		if body, code := g.ask(http.MethodPost, fmt.Sprint("/forks/f", n)); code != 0 {
			t.Fatal(body, code)
		}
	}
	if body, code := g.ask(http.MethodPost, "/forks/more"); code != 429 {
		t.Error(body, code)
	}
}

// A request that has found a fork before it was removed does not start it again, and one that comes while it stops has it started.
func TestBetween(t *testing.T) {
	g := begin(t)
	_, _ = g.ask(http.MethodPost, "/forks/a")
	p := g.all["a"]
	_, _ = g.ask(http.MethodDelete, "/forks/a")
	if err := g.wake(t.Context(), p); !apierrors.IsNotFound(err) || g.planes["a"].Running() {
		t.Errorf("after its removal: %v", err)
	}
	_, _ = g.ask(http.MethodPost, "/forks/b")
	_, _ = g.ask(http.MethodGet, "/forks/b/api")
	p = g.all["b"]
	p.one.Lock() // as rest holds it
	p.resting = true
	done := make(chan error)
	go func() { _, err := g.enter(t.Context(), "b"); done <- err }()
	for g.underWay(p) == 0 {
		runtime.Gosched()
	}
	_ = p.Stop()
	p.one.Unlock()
	if err := <-done; err != nil || !p.Running() {
		t.Errorf("while it stopped: %v, running %t", err, p.Running())
	}
}

// underWay is how many requests are under way.
func (f *Forks) underWay(p *fork) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return p.requests
}
