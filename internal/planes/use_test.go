package planes

import (
	"fmt"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kanzen-io/kanzen/internal/recorder/v1alpha1"
)

const statsPath = "/apis/flightrecorder.kanzen.io/v1alpha1/planestats"

// The root's flight recorder tells what each plane does, and the status of a Plane what it uses. Nothing is written if nothing has changed.
func TestUse(t *testing.T) {
	cfg := settings(t.TempDir())
	g := start(t, cfg)
	g.create(t, "one", PlaneSpec{Limits: Limits{Objects: 1}})
	g.create(t, "idle", PlaneSpec{})
	for n := range 3 {
		g.ask(t, "one", "one", "POST", configMaps, fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, n))
	}
	var all v1alpha1.PlaneStatList
	if err := g.root.do(t.Context(), http.MethodGet, statsPath, "", nil, &all); err != nil || len(all.Items) != 2 {
		t.Fatalf("%v, %+v", err, all)
	}
	one, idle := all.Items[0], all.Items[1]
	if one.Name != "one" || one.State != awake || one.Requests != 3 || one.RefusedBy.Storage == 0 || one.Refused != one.RefusedBy.All() || one.Seats == 0 || one.Wakes != 1 || idle.State != asleep || idle.Wakes != 0 {
		t.Errorf("%+v", all.Items)
	}
	if err := g.root.do(t.Context(), http.MethodGet, statsPath+"?fieldSelector=state%3DAwake", "", nil, &all); err != nil || len(all.Items) != 1 {
		t.Errorf("those that are awake: %v, %+v", err, all)
	}

	told := func() *Plane {
		t.Helper()
		h := g.find("one")
		if h.outdated() {
			if err := g.keep(t.Context(), "one"); err != nil {
				t.Fatal(err)
			}
		}
		return g.await(t, "one", func(*Plane) bool { return true })
	}
	p := told()
	if p.Status.Requests != 3 || p.Status.Objects == 0 || p.Status.Bytes == 0 || !meta.IsStatusConditionFalse(p.Status.Conditions, withinLimits) {
		t.Errorf("%+v", p.Status)
	}
	p = told()
	if !meta.IsStatusConditionTrue(p.Status.Conditions, withinLimits) {
		t.Errorf("nothing was refused since: %+v", p.Status)
	}
	if again := told(); again.ResourceVersion != p.ResourceVersion {
		t.Errorf("written though nothing has changed: %+v, was %+v", again.Status, p.Status)
	}
	g.must(t, "one", "GET", "/api/v1/namespaces/default", "", nil)
	if p := told(); p.Status.Requests != 4 || meta.FindStatusCondition(g.await(t, "idle", func(*Plane) bool { return true }).Status.Conditions, withinLimits) != nil {
		t.Errorf("%+v", p.Status)
	}
}

// Somebody without planes has no resource of them.
func TestNoStats(t *testing.T) {
	g := start(t, settings(t.TempDir()))
	g.create(t, "one", PlaneSpec{})
	if code, answer := g.ask(t, "one", "one", "GET", statsPath, ""); code != http.StatusNotFound {
		t.Errorf("%d %s", code, answer)
	}
}
