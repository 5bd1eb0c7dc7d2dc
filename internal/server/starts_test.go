package server

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

var starts = flag.Int("starts", 8, "how often TestStarts starts a control plane")

// TestStarts starts and stops one control plane again and again in one process. It finds its objects each time, and leaves nothing
// behind: no goroutine, descriptor, watch of the log, timer, metric or byte.
func TestStarts(t *testing.T) {
	g := newGround(t)
	g.lives(t, testing.Short(), *starts, planeOn(t, g.settings(), g.Process), func(n int, p *Plane) { occupy(t, p, n) })
}

// TestStartsOnEtcd is TestStarts on the embedded etcd, which goes on while the control plane is stopped.
func TestStartsOnEtcd(t *testing.T) {
	g := newGroundOn(t, nil)
	g.lives(t, testing.Short(), max(1, *starts/2), planeOn(t, g.settings(), g.Process), func(n int, p *Plane) { occupy(t, p, n) })
}

// TestStartsAmongOthers is TestStarts for a control plane that has to do with others: webhooks of all kinds, an issuer of tokens and
// an extension server. It also keeps what it keeps in files.
func TestStartsAmongOthers(t *testing.T) {
	g := newGround(t)
	others := newOthers(t)
	g.lives(t, testing.Short(), max(1, *starts/2), planeOn(t, others.settings(g), g.Process), func(n int, p *Plane) { others.occupy(t, p, n) })
}

// lives starts and stops a control plane that is used each time, and checks that nothing more is held in the end.
func (g *ground) lives(t *testing.T, short bool, times int, p *Plane, use func(n int, p *Plane)) {
	t.Helper()
	warm, more := 5, int64(mebibyte) // starts after which what is shared has been made, and bytes that may still be
	if short {                       // few lives show what goroutines share without a lock; many show what adds up
		warm, times, more = 2, 1, 8*mebibyte
	}
	var before usage
	began := time.Now()
	for n := range warm + times {
		if n == warm {
			before, began = g.held(t), time.Now()
		}
		g.life(t, p, func() { use(n, p) })
	}
	took := time.Since(began) / time.Duration(times)
	after := g.heldAtMost(t, before, more)
	t.Logf("%d starts, %v each; before %+v, after %+v", times, took.Round(100*time.Microsecond), before, after)
}

// TestStopped shows what a stopped control plane holds.
func TestStopped(t *testing.T) {
	g := newGround(t)
	for range 3 { // what is shared is made
		g.life(t, planeOn(t, g.settings(), g.Process), func() {})
	}
	before := heapInUse()
	var all []*Plane
	for range *starts {
		all = append(all, planeOn(t, g.settings(), g.Process))
		g.life(t, all[len(all)-1], func() {})
	}
	each := (heapInUse() - before) / int64(len(all))
	t.Logf("each of %d holds %d bytes", len(all), each)
	if each > 16<<10 {
		t.Errorf("each of %d stopped control planes holds %d bytes", len(all), each)
	}
	runtime.KeepAlive(all)
}

// ground is a process whose log and clock count what is under way.
type ground struct {
	*process.Process
	dir     string
	watches *watched
	timers  *timers
}

// newGround makes one whose log is in memory.
func newGround(t *testing.T) *ground {
	t.Helper()
	db := memory.New(clock.RealClock{})
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return newGroundOn(t, db)
}

// newGroundOn makes one on a log; nil: the embedded etcd.
func newGroundOn(t *testing.T, db store.DB) *ground {
	t.Helper()
	g := &ground{dir: t.TempDir(), timers: &timers{WithTickerAndDelayedExecution: clock.RealClock{}}}
	given := process.Given{DB: db, Clock: g.timers, Around: func(db store.DB) store.DB {
		g.watches = &watched{DB: db}
		return g.watches
	}}
	var err error
	if g.Process, err = openWith(g.settings(), given); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (g *ground) settings() *config.Config {
	cfg := config.Standalone()
	cfg.DataDir, cfg.SecurePort, cfg.UnsafeNoFsync = g.dir, 0, true
	return &cfg
}

// life starts a control plane, uses it, and stops it.
func (g *ground) life(t *testing.T, p *Plane, use func()) {
	t.Helper()
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	use()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	// The history of the log is the log's.
	head, err := g.DB.Head(t.Context())
	if err == nil {
		err = g.DB.Compact(t.Context(), head)
	}
	if err != nil && !errors.Is(err, kv.ErrCompacted) {
		t.Fatal(err)
	}
}

// occupy writes some objects, those of the life before among them, and leaves a watch open.
func occupy(t *testing.T, p *Plane, n int) {
	t.Helper()
	const (
		space  = "/api/v1/namespaces/starts"
		things = "/apis/starts.example.com/v1/namespaces/starts/things"
	)
	if n > 0 {
		if got, want := ask(t, p, "GET", space+"/configmaps/kept", ""), fmt.Sprintf(`"life":"%d"`, n-1); !strings.Contains(got, want) {
			t.Fatalf("the object of the last life: %s, want %s", got, want)
		}
	}
	ask(t, p, "PATCH", space, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"starts"}}`)
	ask(t, p, "PATCH", space+"/configmaps/kept", fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kept"},"data":{"life":"%d"}}`, n))
	ask(t, p, "POST", space+"/configmaps", `{"metadata":{"name":"gone"}}`)
	ask(t, p, "DELETE", space+"/configmaps/gone", "")
	ask(t, p, "PATCH", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.starts.example.com", `{
		"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.starts.example.com"},"spec":{"group":"starts.example.com","scope":"Namespaced",
		"names":{"plural":"things","singular":"thing","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"size":{"type":"integer","x-kubernetes-validations":[{"rule":"self >= 0"}]}}}}}]}}`)
	persist(t, p, "PATCH", things+"/kept", fmt.Sprintf(`{"apiVersion":"starts.example.com/v1","kind":"Thing","metadata":{"name":"kept"},"size":%d}`, n))
	for _, path := range []string{"/openapi/v2", "/apis", "/metrics", "/api/v1/pods"} {
		ask(t, p, "GET", path, "")
	}
	for _, path := range []string{space + "/configmaps", things} {
		resp := roundTrip(t, p, "GET", path+"?watch=true", "")
		if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
			t.Fatal(path, err)
		}
	}
}

// ask sends a request that must succeed.
func ask(t *testing.T, p *Plane, method, path, body string) string {
	t.Helper()
	code, answer := try(t, p, method, path, body)
	if code >= 300 {
		t.Fatal(method, path, code, answer)
	}
	return answer
}

func try(t *testing.T, p *Plane, method, path, body string) (int, string) {
	t.Helper()
	resp := roundTrip(t, p, method, path, body)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(method, path, err)
	}
	return resp.StatusCode, string(answer)
}

func roundTrip(t *testing.T, p *Plane, method, path, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(method, "http://kanzen"+path, strings.NewReader(body)) //nolint:noctx // Stop ends the watches
	if err != nil {
		t.Fatal(err)
	}
	switch method {
	case "PATCH":
		req.Header.Set("Content-Type", "application/apply-patch+yaml")
		req.URL.RawQuery = "fieldManager=test&force=true"
	case "POST":
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := p.Transport(masters).RoundTrip(req)
	if err != nil {
		t.Fatal(method, path, err)
	}
	return resp
}

// usage is what a process holds.
type usage struct {
	Goroutines, Descriptors int
	Watches, Timers         int64
	Series                  int
	Heap                    int64
}

func (g *ground) held(t *testing.T) usage {
	t.Helper()
	families, err := g.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := 0
	for _, f := range families {
		series += len(f.GetMetric())
	}
	descriptors, _ := os.ReadDir("/proc/self/fd") // there is none on some systems
	return usage{runtime.NumGoroutine(), len(descriptors), g.watches.open.Load(), g.timers.running.Load(), series, heapInUse()}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

const mebibyte = 1 << 20

// heldAtMost waits until the process holds no more than before, but for some bytes, and fails the test if that does not happen.
func (g *ground) heldAtMost(t *testing.T, before usage, more int64) usage {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		now := g.held(t)
		if now.Goroutines <= before.Goroutines && now.Descriptors <= before.Descriptors && now.Watches <= before.Watches &&
			now.Timers <= before.Timers && now.Series <= before.Series && now.Heap <= before.Heap+more {
			return now
		}
		if time.Now().After(deadline) {
			t.Errorf("left behind: before %+v, after %+v", before, now)
			if now.Goroutines > before.Goroutines {
				var stacks bytes.Buffer
				_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // those alike are counted; written to memory
				t.Log(stacks.String())
			}
			return now
		}
	}
}

// watched is a log that counts the watches on it.
type watched struct {
	store.DB
	open atomic.Int64
}

// Watch is part of store.DB.
func (w *watched) Watch(ctx context.Context, of kv.Watch, deliver kv.Deliver) error {
	w.open.Add(1)
	defer w.open.Add(-1)
	return w.DB.Watch(ctx, of, deliver)
}

// timers is a clock that counts the calls that are to be made later.
type timers struct {
	clock.WithTickerAndDelayedExecution
	running atomic.Int64
}

// AfterFunc is part of clock.WithDelayedExecution.
func (c *timers) AfterFunc(d time.Duration, f func()) clock.Timer {
	c.running.Add(1)
	return &timer{c.WithTickerAndDelayedExecution.AfterFunc(d, func() { c.running.Add(-1); f() }), c}
}

type timer struct {
	clock.Timer
	of *timers
}

// Stop is part of clock.Timer.
func (t *timer) Stop() bool {
	stopped := t.Timer.Stop()
	if stopped {
		t.of.running.Add(-1)
	}
	return stopped
}

// Reset is part of clock.Timer.
func (t *timer) Reset(d time.Duration) bool {
	running := t.Timer.Reset(d)
	if !running {
		t.of.running.Add(1)
	}
	return running
}
