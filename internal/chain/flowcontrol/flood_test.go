package flowcontrol

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// TestFloodThroughTheFilter tests the real filter, with its locks and goroutines, under a flood. Time is simulated (it
// passes only when all goroutines wait), and requests take 10 ms each. The flood retries at once after a rejection. A
// tenant of the same level, a node and the administrator each send a request every 50 ms.
func TestFloodThroughTheFilter(t *testing.T) {
	type others struct{ tenant, node, admin time.Duration }
	measure := func(flood int) (o others, refused int) {
		synctest.Test(t, func(t *testing.T) {
			c := New(60, clock.RealClock{}, noStats, testMetrics())
			c.Configure(suggested(t))
			h := c.Filter(time.Minute).Then(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(10 * time.Millisecond) }))
			end := time.Now().Add(6 * time.Second)
			adjust := time.AfterFunc(0, func() {
				for ; time.Now().Before(end); time.Sleep(time.Second) {
					c.Adjust()
				}
			})
			defer adjust.Stop()
			send := func(who, method, path string) (code int) {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, ask(c, who, method, path))
				return w.Code
			}
			var wg sync.WaitGroup
			var mu sync.Mutex
			for range flood {
				wg.Go(func() {
					for time.Now().Before(end) {
						if send("flood,system:authenticated", "GET", "/api/v1/namespaces/a/pods/x") == http.StatusTooManyRequests {
							mu.Lock()
							refused++
							mu.Unlock()
						}
					}
				})
			}
			p99 := func(who, method, path string, out *time.Duration) {
				wg.Go(func() {
					var took []time.Duration
					for time.Now().Before(end) {
						began := time.Now()
						if code := send(who, method, path); code != http.StatusOK {
							t.Errorf("%s: %d", who, code)
						}
						took = append(took, time.Since(began))
						time.Sleep(50 * time.Millisecond)
					}
					slices.Sort(took)
					*out = took[(len(took)-1)*99/100]
				})
			}
			p99("tenant,system:authenticated", "GET", "/api/v1/namespaces/b/pods/x", &o.tenant)
			p99("system:node:n,system:nodes,system:authenticated", "PATCH", "/api/v1/nodes/n/status", &o.node)
			p99("admin,system:masters,system:authenticated", "GET", "/api/v1/pods", &o.admin)
			wg.Wait()
		})
		return o, refused
	}
	alone, _ := measure(0)
	beside, refused := measure(600) // ten times the seats of all levels
	t.Logf("p99 alone %+v, beside the flood %+v; %d requests of the flood were refused", alone, beside, refused)
	// Some 300 requests do not fit into the queues; each is rejected about once a second.
	if beside.tenant > 2*alone.tenant || beside.node != alone.node || beside.admin != alone.admin || refused < 600 || refused > 4000 {
		t.Errorf("p99 alone %+v, beside the flood %+v; %d requests of the flood were refused", alone, beside, refused)
	}
}
