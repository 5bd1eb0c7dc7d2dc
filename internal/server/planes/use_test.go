package planes

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
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
	if err := g.root.Do(t.Context(), http.MethodGet, statsPath, "", nil, &all); err != nil || len(all.Items) != 2 {
		t.Fatalf("%v, %+v", err, all)
	}
	one, idle := all.Items[0], all.Items[1]
	if one.Name != "one" || one.State != awake || one.Requests != 3 || one.RefusedBy.Storage == 0 || one.Refused != one.RefusedBy.All() || one.Seats == 0 || one.Wakes != 1 || idle.State != asleep || idle.Wakes != 0 {
		t.Errorf("%+v", all.Items)
	}
	if err := g.root.Do(t.Context(), http.MethodGet, statsPath+"?fieldSelector=state%3DAwake", "", nil, &all); err != nil || len(all.Items) != 1 {
		t.Errorf("those that are awake: %v, %+v", err, all)
	}

	// told has the status written as often as there is something to say, until it says what is wanted.
	told := func(is func(*PlaneStatus) bool) *Plane {
		t.Helper()
		return g.await(t, "one", func(p *Plane) bool {
			outdated := g.find("one").outdated()
			if outdated {
				g.queue.AddAfter("one", 0)
			}
			return !outdated && is(&p.Status)
		})
	}
	p := told(func(s *PlaneStatus) bool {
		return s.Requests == 3 && s.Objects > 0 && s.Bytes > 0 && meta.IsStatusConditionTrue(s.Conditions, withinLimits)
	})
	if again := told(func(*PlaneStatus) bool { return true }); again.ResourceVersion != p.ResourceVersion {
		t.Errorf("written though nothing has changed: %+v, was %+v", again.Status, p.Status)
	}
	g.must(t, "one", "GET", "/api/v1/namespaces/default", "", nil)
	told(func(s *PlaneStatus) bool { return s.Requests == 4 })
	if p := g.await(t, "idle", func(*Plane) bool { return true }); meta.FindStatusCondition(p.Status.Conditions, withinLimits) != nil {
		t.Errorf("nothing was ever refused: %+v", p.Status)
	}
}

// The condition says whether something was refused since the status was written last.
func TestJudge(t *testing.T) {
	var p Plane
	var was, now v1alpha1.RefusedPlane
	at := time.Unix(1, 0)
	if judge(&p, was, now, at); len(p.Status.Conditions) > 0 {
		t.Errorf("nothing was ever refused: %+v", p.Status.Conditions)
	}
	now.Storage = 2
	if judge(&p, was, now, at); !meta.IsStatusConditionFalse(p.Status.Conditions, withinLimits) || !strings.Contains(p.Status.Conditions[0].Message, "2 writes") {
		t.Errorf("two writes were refused: %+v", p.Status.Conditions)
	}
	if judge(&p, now, now, at); !meta.IsStatusConditionTrue(p.Status.Conditions, withinLimits) {
		t.Errorf("nothing was refused since: %+v", p.Status.Conditions)
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
