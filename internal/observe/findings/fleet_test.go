package findings

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// TestFleet looks at servers that share planes.
func TestFleet(t *testing.T) {
	d := newDesk()
	now := d.clock.Now()
	fleet := &Fleet{Servers: []*FleetServer{
		{Name: "a:1", Runs: true, Awake: 3, Busy: 2, Rate: 60, Named: 3}, {Name: "b:1", Runs: true, Awake: 3, Busy: 2, Rate: 50}, {Name: "c:1", Heard: now.Add(-time.Minute)}},
		Moving: []MovingPlane{{Name: "one", Moves: manyMoves - 1, Why: map[string]int{"Moved": manyMoves - 1}}}}
	d.Fleet = func() *Fleet { return fleet }
	if all := d.found(0); len(all) != 0 {
		t.Errorf("nothing is wrong: %+v", all)
	}

	fleet.Servers[2].Named, fleet.Servers[2].Naming = 2, []string{"one", "two"}
	f := one(d.found(every), "PlaneServerAway")
	if f == nil || f.Severity != "Warning" || f.Summary != "server c:1 does not run, and 2 planes name it (spec.server)" || !f.Since.Time.Equal(now.Add(-time.Minute)) || !strings.Contains(f.Cause, "crashed") ||
		!slices.Contains(f.Evidence, "plane two names it") || !slices.ContainsFunc(f.Commands, func(c string) bool { return strings.HasPrefix(c, "kanzen plane move one --to=") }) {
		t.Errorf("%+v", f)
	}
	for _, shown := range d.Findings(t.Context(), func(v1alpha1.ObjectReference) bool { return false }) {
		if text := strings.Join(append(shown.Evidence, shown.Commands...), "\n"); strings.Contains(text, "two") || strings.Contains(text, "one") {
			t.Errorf("somebody who may not get planes is told of one: %s", text)
		}
	}
	fleet.Servers[2].Heard, fleet.Servers[2].Named = time.Time{}, 1
	if f := one(d.found(every), "PlaneServerAway"); f == nil || !strings.Contains(f.Summary, "1 plane names it") || !strings.Contains(f.Cause, "no such server") {
		t.Errorf("%+v", f)
	}
	fleet.Servers = fleet.Servers[:2]

	fleet.Free = []FreePlane{{Name: "one", Since: now.Add(-30 * time.Second), Last: "c:1", Next: "b:1"}}
	f = one(d.found(every), "PlaneWithoutOwner")
	if f == nil || f.Severity != "Error" || f.Cause != "server b:1 is to take it, and does not" || !f.Since.Time.Equal(now.Add(-30*time.Second)) || f.Object == nil || f.Object.Name != "one" {
		t.Errorf("%+v", f)
	}
	fleet.Free = nil

	fleet.Moving[0].Moves, fleet.Moving[0].Why, fleet.Moving[0].Between = manyMoves, map[string]int{"Moved": 4, "TakenOver": 2}, []string{"a:1", "b:1"}
	f = one(d.found(every), "PlaneFlaps")
	if f == nil || f.Severity != "Warning" || !strings.HasPrefix(f.Cause, "Moved 4 times, TakenOver 2 times: ") || !slices.Contains(f.Evidence, "between a:1 and b:1") {
		t.Errorf("%+v", f)
	}
	fleet.Moving = nil

	for _, c := range []struct {
		name   string
		rates  []float64
		busy   int
		uneven bool
	}{
		{"two servers, one of them with nearly all", []float64{80, 20}, 3, true}, {"two servers, one of them with more", []float64{70, 30}, 3, false}, {"one plane only", []float64{100, 0}, 1, false},
		{"little", []float64{40, 0}, 3, false}, {"three servers", []float64{20, 70, 10}, 3, true}, {"all the same", []float64{100, 100, 100}, 3, false}, {"one server", []float64{1000}, 3, false},
	} {
		fleet.Servers = nil
		for n, rate := range c.rates {
			fleet.Servers = append(fleet.Servers, &FleetServer{Name: string(rune('a' + n)), Runs: true, Awake: 4, Busy: c.busy, Rate: rate})
		}
		if f := one(d.found(every), "PlanesUneven"); (f != nil) != c.uneven || f != nil && f.Severity != "Info" {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
	fleet = &Fleet{Away: []AwayStorage{{Class: "far", Since: now.Add(-time.Minute), Why: "no route to host"}}}
	if all := d.found(every); len(all) != 0 {
		t.Errorf("an etcd in which no plane lies: %+v", all)
	}
	fleet.Away[0].Planes, fleet.Away[0].Some = 2, []string{"one", "two"}
	f = one(d.found(every), "PlaneStorageAway")
	if f == nil || f.Severity != "Error" || f.Summary != "the etcd of the storage class far does not answer, and 2 planes lie in it" || f.Cause != "no route to host" ||
		!f.Since.Time.Equal(now.Add(-time.Minute)) || !slices.Contains(f.Evidence, "plane two lies there") {
		t.Errorf("%+v", f)
	}
	fleet = nil
	if all := d.found(every); len(all) != 0 {
		t.Errorf("there are no other servers: %+v", all)
	}
}
