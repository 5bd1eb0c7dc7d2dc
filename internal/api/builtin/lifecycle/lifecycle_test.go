package lifecycle

import (
	"slices"
	"testing"
	"time"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

const pod = `{pod: {name: p, uid: 3e9bb87f-1ba7-4a9d-b6b8-2a4b40a3cb9b}}`

func resources(t *testing.T) []*engine.Resource {
	t.Helper()
	gates, err := features.Parse([]string{"EvictionRequestAPI=true"}, features.Now())
	if err != nil {
		t.Fatal(err)
	}
	return Resources(Deps{Gates: gates, Now: func() time.Time { return noon }})
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestGate(t *testing.T) {
	if all := Resources(Deps{}); len(all) > 0 {
		t.Errorf("%d resources are served without their gate", len(all))
	}
}

func TestEvictionRequests(t *testing.T) {
	k := rulestest.Of(t, resources(t), "evictionrequests", `{metadata: {name: r}, spec: {target: `+pod+`, requester: example.com/r, intent: Eviction}}`)
	k.Create(t, []rulestest.Case{
		{Name: "no target", Edit: `{spec: {target: {pod: null}}}`, Want: []string{"spec.target Invalid"}},
		{Name: "no uid", Edit: `{spec: {target: {pod: {uid: ""}}}}`, Want: []string{"spec.target.pod.uid Required"}},
		{Name: "uid", Edit: `{spec: {target: {pod: {uid: 3E9BB87F-1ba7-4a9d-b6b8-2a4b40a3cb9b}}}}`, Want: []string{"spec.target.pod.uid Invalid"}},
		{Name: "pod", Edit: `{spec: {target: {pod: {name: A}}}}`, Want: []string{"spec.target.pod.name Invalid"}},
		{Name: "no requester", Edit: `{spec: {requester: ""}}`, Want: []string{"spec.requester Required"}},
		{Name: "no domain", Edit: `{spec: {requester: r}}`, Want: []string{"spec.requester Invalid"}},
		{Name: "reserved", Edit: `{spec: {requester: a.K8s.io./r}}`, Want: []string{"spec.requester Invalid"}},
		{Name: "no intent", Edit: `{spec: {intent: ""}}`, Want: []string{"spec.intent Required"}},
		{Name: "intent", Edit: `{spec: {intent: Maybe}}`, Want: []string{"spec.intent NotSupported"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "withdrawn", Edit: `{spec: {intent: Withdrawn}}`},
		{Name: "another pod", Edit: `{spec: {target: {pod: {name: q}}}}`, Want: []string{"spec.target Invalid"}},
		{Name: "another requester", Edit: `{spec: {requester: s}}`, Want: []string{"spec.requester Invalid"}},
	})
	k.Update(t, "status", []rulestest.Case{
		{Name: "observed", Edit: `{status: {observedGeneration: 1}}`},
		{Name: "observed nothing", Edit: `{status: {observedGeneration: 0}}`, Want: []string{"status.observedGeneration Invalid"}},
		{Name: "condition", Edit: `{status: {conditions: [{type: Failed, status: Maybe, reason: r, message: m, lastTransitionTime: "2026-01-01T12:00:00Z"}]}}`,
			Want: []string{"status.conditions[0].status NotSupported"}},
	})
}

// The status of evictions, in which the first responder is active.
const (
	first  = `{name: example.com/first, priority: 2000, state: Active}`
	second = `{name: example.com/second, priority: 1000, state: Inactive}`
	own    = `{name: imperative-eviction.k8s.io/evictor, priority: 100, state: Inactive}`
	begun  = `{name: example.com/first, startTime: "2026-01-01T12:00:00Z"}`
	rest   = `{name: example.com/second}, {name: imperative-eviction.k8s.io/evictor}`
)

func status(targets, reports string) string {
	return `{status: {targetResponders: [` + targets + `], responders: [` + reports + `]}}`
}

func TestEvictions(t *testing.T) {
	k := rulestest.Of(t, resources(t), "evictions", `{metadata: {name: e}, spec: {target: `+pod+`}}`)
	k.Create(t, []rulestest.Case{{Name: "no target", Edit: `{spec: {target: {pod: null}}}`, Want: []string{"spec.target Invalid"}}})
	k.Update(t, "", []rulestest.Case{{Name: "another pod", Edit: `{spec: {target: {pod: {name: q}}}}`, Want: []string{"spec.target Invalid"}}})
	k.Update(t, "status", []rulestest.Case{
		{Name: "begin", Edit: status(own+`, `+second+`, `+first, begun+`, `+rest)},
		{Name: "no reports", Edit: status(first, ""), Want: []string{"status.targetResponders[0] Invalid", "status.responders Invalid"}},
		{Name: "no start", Edit: status(first, `{name: example.com/first}`), Want: []string{"status.responders[0].startTime Required"}},
		{Name: "past start", Edit: status(first, `{name: example.com/first, startTime: "2026-01-01T11:59:00Z"}`), Want: []string{"status.responders[0].startTime Invalid"}},
		{Name: "not in order", Edit: status(`{name: example.com/third, priority: 3000, state: Inactive}, `+first, begun+`, {name: example.com/third}`),
			Want: []string{"status.targetResponders[0].state Invalid", "status.targetResponders[1].state Invalid"}},
		{Name: "twice", Edit: status(first+`, `+first, begun+`, `+begun), Want: []string{"status.targetResponders[1] Duplicate", "status.responders[1] Duplicate"}},
		{Name: "reserved priority", Edit: status(`{name: example.com/first, priority: 100, state: Active}`, begun), Want: []string{"status.targetResponders[0].priority Invalid"}},
		{Name: "own priority", Edit: status(`{name: imperative-eviction.k8s.io/evictor, priority: 1000, state: Active}`,
			`{name: imperative-eviction.k8s.io/evictor, startTime: "2026-01-01T12:00:00Z"}`), Want: []string{"status.targetResponders[0].priority Invalid"}},
		{Name: "requesters", Edit: `{status: {requesters: [{name: example.com/r, intent: Eviction}, {name: r, intent: Maybe}]}}`,
			Want: []string{"status.requesters[1].name Invalid", "status.requesters[1].intent NotSupported"}},
	})
}

func TestProgress(t *testing.T) {
	k := rulestest.Of(t, resources(t), "evictions", `{metadata: {name: e}, spec: {target: `+pod+`}}`)
	const (
		done    = `{name: example.com/first, startTime: "2026-01-01T11:00:00Z", completionTime: "2026-01-01T12:00:00Z"}`
		started = `{name: example.com/first, startTime: "2026-01-01T11:00:00Z"}`
		next    = `{name: example.com/second, startTime: "2026-01-01T12:00:00Z"}, {name: imperative-eviction.k8s.io/evictor}`
		isNext  = `{name: example.com/second, priority: 1000, state: Active}`
	)
	ended := func(state string) string { return `{name: example.com/first, priority: 2000, state: ` + state + `}` }
	old := k.Decoded(t, status(first+`, `+second+`, `+own, started+`, `+rest))
	for name, c := range map[string]struct {
		edit string
		want []string
	}{
		"same":           {status(first+`, `+second+`, `+own, started+`, `+rest), nil},
		"heartbeat":      {status(first+`, `+second+`, `+own, `{name: example.com/first, startTime: "2026-01-01T11:00:00Z", heartbeatTime: "2026-01-01T12:00:00Z", expectedCompletionTime: "2026-01-02T12:00:00Z"}, `+rest), nil},
		"old heartbeat":  {status(first+`, `+second+`, `+own, `{name: example.com/first, startTime: "2026-01-01T11:00:00Z", heartbeatTime: "2026-01-01T11:30:00Z"}, `+rest), []string{"status.responders[0].heartbeatTime Invalid"}},
		"too late":       {status(first+`, `+second+`, `+own, `{name: example.com/first, startTime: "2026-01-01T11:00:00Z", expectedCompletionTime: "2046-01-02T12:00:00Z"}, `+rest), []string{"status.responders[0].expectedCompletionTime Invalid"}},
		"new start":      {status(first+`, `+second+`, `+own, begun+`, `+rest), []string{"status.responders[0].startTime Invalid"}},
		"completed":      {status(ended("Completed")+`, `+second+`, `+own, done+`, `+rest), []string{"status.responders[0] Invalid", "status.targetResponders[1].state Invalid"}},
		"interrupted":    {status(ended("Interrupted")+`, `+isNext+`, `+own, started+`, `+next), nil},
		"both":           {status(first+`, `+isNext+`, `+own, started+`, `+next), []string{"status.targetResponders[1].state Invalid"}},
		"back":           {status(ended("Inactive")+`, `+second+`, `+own, started+`, `+rest), []string{"status.targetResponders[0].state Invalid", "status.targetResponders[1].state Invalid"}},
		"other names":    {status(first, started), []string{"status.targetResponders Invalid"}},
		"other priority": {status(`{name: example.com/first, priority: 2001, state: Active}, `+second+`, `+own, started+`, `+rest), []string{"status.targetResponders[0].priority Invalid"}},
		"evicted": {`{status: {conditions: [{type: TargetEvicted, status: "True", reason: r, message: m, lastTransitionTime: "2026-01-01T12:00:00Z"}], ` +
			`targetResponders: [` + first + `, ` + second + `, ` + own + `], responders: [` + started + `, ` + rest + `]}}`,
			[]string{"status.targetResponders[0].state Invalid"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, got := k.UpdatedFrom(t, "status", old, c.edit)
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// Equal priorities go by domains, from the top down.
func TestOrder(t *testing.T) {
	const same = int32(1000)
	var list []lifecyclev1alpha1.TargetResponder
	for _, name := range []string{"b.example.org/a", "a.example.com/b", "example.com/z", "a.example.com/a"} {
		p := same
		list = append(list, lifecyclev1alpha1.TargetResponder{Name: name, Priority: &p})
	}
	want := []string{"example.com/z", "a.example.com/a", "a.example.com/b", "b.example.org/a"}
	for i, r := range inOrder(list) {
		if r.Name != want[i] {
			t.Errorf("%d: %s, want %s", i, r.Name, want[i])
		}
	}
}

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"EvictionRequest": celltest.For[lifecyclev1alpha1.EvictionRequest](requestTable()),
		"Eviction":        celltest.For[lifecyclev1alpha1.Eviction](evictionTable(func() time.Time { return noon })),
	})
}
