package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// shifted is the real clock, put forward by a time that can be changed.
type shifted struct {
	clock.RealClock
	by *atomic.Int64
}

func (c shifted) Now() time.Time                  { return c.RealClock.Now().Add(time.Duration(c.by.Load())) }
func (c shifted) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// TestWaitingAmongMany makes a Deployment that nobody works on, before anybody lists Deployments and among more observed ones than
// are decoded.
func TestWaitingAmongMany(t *testing.T) {
	t.Parallel()
	on := *shared(t)
	clk := shifted{by: new(atomic.Int64)}
	on.Clock = clk
	s := plane(t, &on, "/waiting")
	const path = "/apis/apps/v1/namespaces/default/deployments"
	makes := func(name string) {
		do(t, s, "POST", path, "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":%q},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
			"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, name), 201)
	}
	observes := func(name string) {
		do(t, s, "PATCH", path+"/"+name+"/status", "application/merge-patch+json", "", []byte(`{"status":{"observedGeneration":1}}`), 200)
	}
	waits := func(name string) bool {
		clk.by.Add(int64(time.Minute))
		var list v1alpha1.FindingList
		if err := json.Unmarshal(do(t, s, "GET", "/apis/"+v1alpha1.GroupVersion().String()+"/findings", "", "", nil, 200), &list); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list.Items, func(f v1alpha1.Finding) bool {
			return f.Check == "NobodyWorks" && strings.Contains(strings.Join(f.Evidence, " "), "deployment "+name+" in default waits")
		})
	}
	makes("alone")
	if !waits("alone") {
		t.Error("a Deployment that nobody has listed does not wait")
	}
	observes("alone")
	if waits("alone") {
		t.Error("it is worked on, and waits")
	}
	for n := range 501 {
		name := fmt.Sprintf("many-%03d", n)
		makes(name)
		observes(name)
	}
	do(t, s, "GET", path, "", "", nil, 200)
	makes("zz")
	do(t, s, "GET", path, "", "", nil, 200)
	if !waits("zz") {
		t.Error("the last of many does not wait")
	}
}
