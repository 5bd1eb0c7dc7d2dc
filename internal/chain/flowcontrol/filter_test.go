package flowcontrol

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/request"
)

// suggested returns the objects that a cluster starts with.
func suggested(t testing.TB) (levels []*flowcontrolv1.PriorityLevelConfiguration, schemas []*flowcontrolv1.FlowSchema) {
	t.Helper()
	f, err := os.Open("../../server/controlplane/bootstrap.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := json.NewDecoder(f); d.More(); {
		var line json.RawMessage
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		var pl flowcontrolv1.PriorityLevelConfiguration
		var fs flowcontrolv1.FlowSchema
		switch text := string(line); {
		case strings.Contains(text, `"kind":"PriorityLevelConfiguration"`):
			if err := json.Unmarshal(line, &pl); err != nil {
				t.Fatal(err)
			}
			levels = append(levels, &pl)
		case strings.Contains(text, `"kind":"FlowSchema"`):
			if err := json.Unmarshal(line, &fs); err != nil {
				t.Fatal(err)
			}
			schemas = append(schemas, &fs)
		}
	}
	return levels, schemas
}

func noStats(string, string) (int64, int64, bool) { return 0, 0, false }

func controller(t testing.TB, seats int, stats Stats) *Controller {
	c := New(seats, clock.RealClock{}, stats, testMetrics())
	c.Configure(suggested(t))
	return c
}

// ask returns a request of a user, "name,group,group".
func ask(c *Controller, who, method, path string) *http.Request {
	parts := strings.Split(who, ",")
	r := httptest.NewRequest(method, path, nil)
	i, err := request.NewInfo(r)
	if err != nil {
		panic(err)
	}
	ctx := request.WithUser(request.WithInfo(r.Context(), i), &user.DefaultInfo{Name: parts[0], Groups: parts[1:]})
	return r.WithContext(ctx)
}

func TestClassification(t *testing.T) {
	c := controller(t, 600, noStats)
	for _, q := range []struct{ who, method, path, schema, level string }{
		{"admin,system:masters,system:authenticated", "GET", "/api/v1/pods", "exempt", "exempt"},
		{"anonymous,system:unauthenticated", "GET", "/readyz", "probes", "exempt"},
		{"system:kube-scheduler,system:authenticated", "PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler", "system-leader-election", "leader-election"},
		{"system:kube-scheduler,system:authenticated", "GET", "/api/v1/pods", "kube-scheduler", "workload-high"},
		{"system:node:n,system:nodes,system:authenticated", "PATCH", "/api/v1/nodes/n/status", "system-node-high", "node-high"},
		{"system:node:n,system:nodes,system:authenticated", "GET", "/api/v1/pods", "system-nodes", "system"},
		{"system:serviceaccount:kube-system:x,system:serviceaccounts,system:authenticated", "GET", "/api/v1/pods", "kube-system-service-accounts", "workload-high"},
		{"system:serviceaccount:kube-systemic:x,system:serviceaccounts,system:authenticated", "GET", "/api/v1/pods", "service-accounts", "workload-low"},
		{"alice,system:authenticated", "GET", "/api/v1/pods", "global-default", "global-default"},
		{"alice,system:authenticated", "GET", "/version", "global-default", "global-default"},
		{"nobody", "GET", "/version", "catch-all", "catch-all"},
	} {
		r := ask(c, q.who, q.method, q.path)
		f := c.classify(request.UserFrom(r.Context()), request.InfoFrom(r.Context()))
		if f.Name != q.schema || f.level.Name != q.level {
			t.Errorf("%s %s by %s: %s, %s; want %s, %s", q.method, q.path, q.who, f.Name, f.level.Name, q.schema, q.level)
		}
	}
}

func TestMatchesURL(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"*", "/x", true}, {"/healthz", "/healthz", true}, {"/healthz", "/healthz/etcd", true}, {"/healthz", "/healthzz", false},
		{"/healthz/*", "/healthz/etcd", true}, {"/healthz/*", "/healthz", false},
	} {
		if got := matchesURL(c.pattern, c.path); got != c.want {
			t.Errorf("%s for %s: %v", c.pattern, c.path, got)
		}
	}
}

func TestEstimates(t *testing.T) {
	stats := func(_, resource string) (int64, int64, bool) {
		switch resource {
		case "pods":
			return 10000, 4000, true
		case "configmaps":
			return 50, 10000, true
		}
		return 0, 0, false
	}
	c := controller(t, 600, stats)
	for n := range 25 {
		r := ask(c, "w", "GET", "/api/v1/namespaces/a/pods?watch=1")
		defer c.watches.add(r.URL, request.InfoFrom(r.Context()))()
		node := ask(c, "w", "GET", fmt.Sprintf("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%%3Dn%d", n))
		defer c.watches.add(node.URL, request.InfoFrom(node.Context()))()
	}
	for _, q := range []struct {
		method, path string
		most         int
		want         Estimate
	}{
		{"GET", "/api/v1/pods", 0, Estimate{Initial: 10}},
		{"GET", "/api/v1/pods", 4, Estimate{Initial: 4}},
		{"GET", "/api/v1/pods?limit=100", 0, Estimate{Initial: 4}},
		{"GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx", 0, Estimate{Initial: 1}},
		{"GET", "/api/v1/configmaps", 0, Estimate{Initial: 5}},
		{"GET", "/api/v1/secrets", 0, Estimate{Initial: 1}},
		{"GET", "/api/v1/pods?watch=1", 0, Estimate{Initial: 10}},
		{"GET", "/api/v1/pods?watch=1&resourceVersion=5", 0, Estimate{Initial: 1}},
		{"GET", "/api/v1/pods?watch=1&resourceVersion=5&sendInitialEvents=true", 0, Estimate{Initial: 10}},
		{"GET", "/api/v1/namespaces/a/pods/x", 0, Estimate{Initial: 1}},
		{"POST", "/api/v1/namespaces/b/pods", 0, Estimate{Initial: 1}},
		{"POST", "/api/v1/namespaces/a/pods", 0, Estimate{Initial: 1, Final: 3, Linger: 5 * time.Millisecond}},
		{"DELETE", "/api/v1/namespaces/a/pods/x", 1, Estimate{Initial: 1, Final: 1, Linger: 15 * time.Millisecond}},
		{"POST", "/api/v1/namespaces/a/serviceaccounts/x/token", 0, Estimate{Initial: 1}},
	} {
		r := ask(c, "alice", q.method, q.path)
		i := request.InfoFrom(r.Context())
		f := c.classify(request.UserFrom(r.Context()), i)
		if got := c.estimate(r, i, f, q.most); got != q.want {
			t.Errorf("%s %s, at most %d: %+v, want %+v", q.method, q.path, q.most, got, q.want)
		}
	}
}

func TestFilterQueuesAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(30, clock.RealClock{}, noStats, testMetrics())
		c.Configure(suggested(t))
		release := make(chan struct{})
		h := c.Filter(time.Minute).Then(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-release }))
		const flood = 1000 // more than the seats of its level and the queues of its hand
		var codes sync.Map
		var wg sync.WaitGroup
		for n := range flood {
			wg.Go(func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, ask(c, "flood,system:authenticated", "GET", "/api/v1/pods"))
				codes.Store(n, w)
			})
		}
		synctest.Wait()
		// Requests of other levels are served meanwhile.
		served := make(chan int)
		go func() {
			w := httptest.NewRecorder()
			c.Filter(time.Minute).Then(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).
				ServeHTTP(w, ask(c, "system:node:n,system:nodes,system:authenticated", "GET", "/api/v1/pods"))
			served <- w.Code
		}()
		if code := <-served; code != http.StatusOK {
			t.Errorf("a node beside the flood: %d", code)
		}
		time.Sleep(16 * time.Second) // a quarter of the request's time
		synctest.Wait()
		close(release)
		wg.Wait()
		got := map[int]int{}
		codes.Range(func(_, v any) bool {
			w := v.(*httptest.ResponseRecorder)
			got[w.Code]++
			if w.Code == http.StatusTooManyRequests && (w.Header().Get("Retry-After") == "" || !strings.HasPrefix(w.Body.String(), "Too many requests")) {
				t.Errorf("%v %s", w.Header(), w.Body)
			}
			return true
		})
		if got[200]+got[429] != flood || got[200] == 0 || got[429] == 0 {
			t.Errorf("%v", got)
		}
		c.each(func(name string, l *level) {
			if !l.set.idle() || l.set.seatsInUse != 0 {
				t.Errorf("%s is not idle", name)
			}
		})
	})
}

func TestWatchLeavesItsSeat(t *testing.T) {
	c := controller(t, 600, noStats)
	seats := func() (n int) {
		c.each(func(_ string, l *level) { n += l.set.seatsInUse })
		return n
	}
	h := c.Filter(time.Minute).Then(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seats() != 1 {
			t.Errorf("while it begins: %d seats", seats())
		}
		request.Watching(r.Context())
		if seats() != 0 {
			t.Errorf("from then on: %d seats", seats())
		}
	}))
	r := ask(c, "alice,system:authenticated", "GET", "/api/v1/pods?watch=1")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if len(c.watches.count) != 0 || seats() != 0 {
		t.Errorf("%v, %d seats", c.watches.count, seats())
	}
	func() {
		defer func() { _ = recover() }()
		c.Filter(time.Minute).Then(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("x") })).ServeHTTP(httptest.NewRecorder(), r)
	}()
	if seats() != 0 {
		t.Error("a panic keeps its seat")
	}
}

func TestConfigureMovesRequests(t *testing.T) {
	c := controller(t, 600, noStats)
	r := ask(c, "alice,system:authenticated", "GET", "/api/v1/pods")
	c.Filter(time.Minute).Then(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		c.Configure(nil, nil) // deletes its level
		if l := c.levels["global-default"]; l == nil || !l.quiescing {
			t.Error("a level with requests stays until they are done")
		}
	})).ServeHTTP(httptest.NewRecorder(), r)
	c.Adjust()
	if len(c.levels) != 2 {
		t.Errorf("%d levels", len(c.levels))
	}
	if f := c.classify(request.UserFrom(r.Context()), request.InfoFrom(r.Context())); f.Name != "catch-all" {
		t.Error(f.Name)
	}
	broken := &flowcontrolv1.PriorityLevelConfiguration{}
	broken.Name, broken.Spec.Type = "broken", flowcontrolv1.PriorityLevelEnablementLimited
	c.Configure([]*flowcontrolv1.PriorityLevelConfiguration{broken}, nil)
	if c.levels["broken"] != nil {
		t.Error("an object that validation would refuse is in force")
	}
}

func TestDebugPages(t *testing.T) {
	c := controller(t, 600, noStats)
	c.Filter(time.Minute).Then(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		for page, want := range map[string]string{
			"dump_priority_levels": "global-default,", "dump_queues": "workload-low,", "dump_requests": "alice", "dump_requests?includeRequestDetails=1": "/api/v1/pods",
		} {
			w := httptest.NewRecorder()
			c.ServeHTTP(w, httptest.NewRequest("GET", DebugPath+page, nil))
			if w.Code != 200 || !strings.Contains(w.Body.String(), want) || !strings.HasPrefix(w.Body.String(), "PriorityLevelName,") {
				t.Errorf("%s: %d %s", page, w.Code, w.Body)
			}
		}
	})).ServeHTTP(httptest.NewRecorder(), ask(c, "alice,system:authenticated", "GET", "/api/v1/pods"))
}

func BenchmarkFilter(b *testing.B) {
	c := controller(b, 600, noStats)
	h := c.Filter(time.Minute).Then(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := ask(c, "system:serviceaccount:a:b,system:serviceaccounts,system:authenticated", "GET", "/api/v1/namespaces/a/pods/x")
	ctx, cancel := context.WithTimeout(r.Context(), time.Hour)
	defer cancel()
	r = r.WithContext(request.WithReceived(ctx, time.Now()))
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}

// A watch that is slow to send its initial events, because its client reads slowly, keeps its seats no longer than
// another request may.
func TestWatchGivesSeatsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(600, clock.RealClock{}, noStats, testMetrics())
		c.Configure(suggested(t))
		seats := func() int {
			l := c.levels["global-default"]
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.set.seatsInUse
		}
		c.Filter(time.Minute).Then(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if time.Sleep(59 * time.Second); seats() == 0 {
				t.Error("no seats while it begins")
			}
			if time.Sleep(2 * time.Second); seats() != 0 {
				t.Errorf("%d seats after a minute", seats())
			}
		})).ServeHTTP(httptest.NewRecorder(), ask(c, "alice,system:authenticated", "GET", "/api/v1/pods?watch=1"))
	})
}

// A request whose client goes away while it waits for its turn leaves the queue.
func TestClientLeavesQueue(t *testing.T) {
	c := controller(t, 600, noStats)
	l := c.levels["global-default"]
	l.mu.Lock()
	l.set.capacity = 1
	l.mu.Unlock()
	waiting := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.set.waiting
	}
	served := 0
	var h http.Handler
	h = c.Filter(time.Minute).Then(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if served++; served > 1 {
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			r := ask(c, "alice,system:authenticated", "GET", "/api/v1/pods/x")
			ctx = request.WithUser(request.WithInfo(ctx, request.InfoFrom(r.Context())), request.UserFrom(r.Context()))
			h.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
		}()
		for waiting() == 0 {
			runtime.Gosched()
		}
		cancel()
		<-left
		if n := waiting(); n != 0 {
			t.Errorf("%d requests still wait", n)
		}
	}))
	h.ServeHTTP(httptest.NewRecorder(), ask(c, "alice,system:authenticated", "GET", "/api/v1/pods/x"))
	if served != 1 {
		t.Errorf("%d were served", served)
	}
}
