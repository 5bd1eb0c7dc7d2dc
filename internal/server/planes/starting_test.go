package planes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/server/planes/owners"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// A request for a plane whose turn to start does not come, or whose start takes long, is answered before its connection is cut for being
// too slow. The start goes on, and whoever asks later finds the plane.
func TestStillStarting(t *testing.T) {
	t.Parallel()
	cfg := settings(t.TempDir())
	cfg.RequestTimeout = 5 * time.Second
	db := &stuck{DB: memory.New(clock.RealClock{})}
	g := startOn(t, cfg, db)
	g.create(t, "one", PlaneSpec{})
	h := g.find("one")
	turns := g.classes[""].wakes
	const path = "/api/v1/namespaces/default"
	for what, holdUp := range map[string]func() (goOn func()){
		"its turn": func() func() {
			for range cap(turns) {
				turns <- struct{}{}
			}
			return func() {
				for range cap(turns) {
					<-turns
				}
			}
		},
		"its start": func() func() { return db.reads(h.prefix() + "/") },
	} {
		g.administrator(t, "one") // is known before nothing can be read
		eventually(t, "it does not sleep", func() bool { return h.sleep() == nil && !h.awake() })
		goOn := sync.OnceFunc(holdUp())
		began := time.Now()
		end := time.AfterFunc(2*(cfg.RequestTimeout+chain.Grace), goOn)
		code, answer := g.ask(t, "one", "one", http.MethodGet, path, "")
		if code != http.StatusServiceUnavailable || !strings.Contains(answer, "the control plane is not available: it is still being started") {
			t.Errorf("%s: %d %s", what, code, answer)
		}
		if took := time.Since(began); took > cfg.RequestTimeout+chain.Grace {
			t.Errorf("%s: the answer took %v", what, took)
		}
		end.Stop()
		goOn()
		if code, answer := g.ask(t, "one", "one", http.MethodGet, path, ""); code != http.StatusOK {
			t.Errorf("%s has come: %d %s", what, code, answer)
		}
	}
}

// A plane keeps its place in the queue of those that start when whoever asked for it has gone, and is started once for all who ask.
func TestTurnIsKept(t *testing.T) {
	t.Parallel()
	g := start(t, settings(t.TempDir()))
	g.create(t, "one", PlaneSpec{})
	h := g.find("one")
	g.administrator(t, "one")
	eventually(t, "it does not sleep", func() bool { return h.sleep() == nil && !h.awake() })
	turns, before := g.classes[""].wakes, h.wakes.Load()
	for range cap(turns) {
		turns <- struct{}{}
	}
	gone, leave := context.WithCancelCause(t.Context())
	var asking sync.WaitGroup
	for range 3 {
		asking.Go(func() {
			if _, err := h.enter(gone); err == nil || err.Error() != "nobody waits" {
				t.Errorf("%v", err)
			}
		})
	}
	eventually(t, "nobody asks", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.requests == 4 // three, and the start
	})
	leave(errors.New("nobody waits"))
	asking.Wait()
	for range cap(turns) {
		<-turns
	}
	eventually(t, "it does not start", func() bool { return h.wakes.Load() > before })
	if code, answer := g.ask(t, "one", "one", http.MethodGet, "/api/v1/namespaces/default", ""); code != http.StatusOK {
		t.Errorf("%d %s", code, answer)
	}
	if n := h.wakes.Load() - before; n != 1 {
		t.Errorf("it was started %d times", n)
	}
}

// stuck is a log in which reads of some keys can be held up, whatever their callers want.
type stuck struct {
	store.DB
	mu     sync.Mutex
	prefix string        // of the keys; guarded by mu
	goOn   chan struct{} // nil: nothing is held up; guarded by mu
}

// reads holds up reads of keys with a prefix until goOn is called.
func (s *stuck) reads(prefix string) (goOn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prefix, s.goOn = prefix, make(chan struct{})
	return func() { close(s.goOn) }
}

// Range is part of store.DB.
func (s *stuck) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	s.mu.Lock()
	prefix, goOn := s.prefix, s.goOn
	s.mu.Unlock()
	if goOn != nil && strings.HasPrefix(r.Key, prefix) {
		<-goOn
	}
	return s.DB.Range(ctx, r, yield)
}

// Who asks for a plane of a server that stands still learns that what was requested may have been done.
func TestServerStandsStill(t *testing.T) {
	g := start(t, settings(t.TempDir()))
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, "https://root"+pathPrefix+"one/api/v1/namespaces", nil)
		g.failed(w, r, "one", &owners.Server{Name: "b:1"}, fmt.Errorf("round trip: %w", context.DeadlineExceeded))
		if w.Code != http.StatusGatewayTimeout || !strings.Contains(w.Body.String(), "may have been done") {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
}
