package planes

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kanzen-io/kanzen/internal/store"
)

// Planes say at once that their etcd is away, and that it is back; of one that comes and goes they say so the later the more often it went.
func TestWord(t *testing.T) {
	var w word
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	since, away, silent := start, false, errors.New("connection refused")
	look := func(at time.Duration, failure error) bool {
		now := start.Add(at)
		if (failure != nil) != away {
			away, since = failure != nil, now
		}
		return w.update(failure, since, now)
	}
	for n, step := range []struct {
		at            time.Duration
		away          bool
		changed, says bool // that it is away
	}{
		{0, false, true, false}, // it is asked for the first time
		{2 * time.Second, false, false, false},
		{4 * time.Second, true, false, false},
		{6 * time.Second, true, false, false},
		{10 * time.Second, true, true, true},
		{12 * time.Second, true, false, true}, // nothing is written as long as it stays away
		{14 * time.Second, false, true, false},
		{16 * time.Second, true, false, false}, // a moment
		{18 * time.Second, false, false, false},
		{20 * time.Second, true, false, false},
		{26 * time.Second, true, true, true}, // again
		{28 * time.Second, false, false, true},
		{30 * time.Second, true, false, true},
		{32 * time.Second, false, false, true},
		{36 * time.Second, false, true, false}, // 4 s
		{38 * time.Second, true, false, false},
		{44 * time.Second, true, true, true},
		{46 * time.Second, false, false, true},
		{53 * time.Second, false, false, true},
		{54 * time.Second, false, true, false}, // 8 s
		{110 * time.Second, true, false, false},
		{116 * time.Second, true, true, true}, // it was there for a minute
		{118 * time.Second, false, true, false},
	} {
		failure := silent
		if !step.away {
			failure = nil
		}
		if changed := look(step.at, failure); changed != step.changed || w.away != step.says {
			t.Errorf("%d: after %v they say something else: %v, that it is away: %v", n, step.at, changed, w.away)
		}
	}
	for _, each := range []time.Duration{1, 4} {
		written := 0
		for at := 10 * time.Minute; at < 70*time.Minute; at += lookEvery {
			failure := silent
			if at/lookEvery/each%2 == 0 {
				failure = nil
			}
			if look(time.Duration(each)*time.Hour+at, failure) {
				written++
			}
		}
		if written > 8 {
			t.Errorf("of an etcd that is away each %d times of %d they say something else %d times in an hour", each, 2*each, written)
		}
	}
}

// look has it looked whether a storage class answers, now and when that is worth telling.
func (g *ground) look(t *testing.T, class string) {
	t.Helper()
	c := g.classes[class]
	for _, at := range []time.Time{time.Now(), time.Now().Add(moment)} {
		if c.look(t.Context(), at) {
			g.spread(c)
		}
	}
}

// standings are what the condition ready of a plane said, one after the other.
type standings struct {
	mu  sync.Mutex
	all []string
}

func (g *ground) standings(t *testing.T, plane string) *standings {
	s := &standings{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	take := func(p *Plane) {
		c := meta.FindStatusCondition(p.Status.Conditions, ready)
		if p.Name != plane || c == nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if now := string(c.Status) + " " + c.Reason; len(s.all) == 0 || s.all[len(s.all)-1] != now {
			s.all = append(s.all, now)
		}
	}
	go func() {
		defer close(done)
		all := func(list []Plane) {
			for n := range list {
				take(&list[n])
			}
		}
		g.root.follow(ctx, time.After, all, take, func(*Plane) {}, func(error) {})
	}()
	t.Cleanup(func() { cancel(); <-done })
	eventually(t, "the Plane is not seen", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.all) > 0
	})
	return s
}

func (s *standings) are(want ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Equal(s.all, want)
}

const (
	isServed  = "True Served"
	isSilent  = "False NoAnswer"
	isUnknown = "False NotConfigured"
)

// standing is what the condition ready of a plane says.
func standing(p *Plane) string {
	c := meta.FindStatusCondition(p.Status.Conditions, ready)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

func (g *ground) stands(t *testing.T, plane, as string) *Plane {
	t.Helper()
	return g.await(t, plane, func(p *Plane) bool { return standing(p) == as })
}

// A plane whose etcd is away is not ready, and says why and since when, also after the server has started anew; it is ready again when the etcd
// is back. Each is said once, and has an Event.
func TestReadyWhileClassIsAway(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	cfg := settings(t.TempDir())
	a := &outage{DB: l.a}
	around := func(name string, db store.DB) store.DB {
		if name == "a" {
			return a
		}
		return db
	}
	g := startWith(t, cfg, l.given(around))
	template := map[string]any{"apiVersion": Group + "/" + Version, "kind": "PlaneTemplate", "metadata": map[string]any{"name": "t"}, "spec": map[string]any{
		"parameters": []any{map[string]any{"name": "X"}},
		"objects":    []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "$(X)", "namespace": "default"}}},
	}}
	if err := g.root.Do(t.Context(), http.MethodPost, strings.TrimSuffix(templatesPath, "/"), "application/json", template, nil); err != nil {
		t.Fatal(err)
	}
	g.create(t, "one", PlaneSpec{StorageClass: "a", Template: "t", Parameters: map[string]string{"X": "x"}})
	g.create(t, "other", PlaneSpec{StorageClass: "b"})
	g.must(t, "one", "DELETE", configMaps+"/x", "", nil)
	g.logged(g.find("one"), g.find("one").sleep())
	g.await(t, "one", func(p *Plane) bool { return p.Status.State == asleep && standing(p) == isServed })
	told := g.standings(t, "one")
	before := time.Now().Truncate(time.Second)
	a.set(true)
	g.look(t, "a")
	p := g.stands(t, "one", isSilent)
	c := meta.FindStatusCondition(p.Status.Conditions, ready)
	if want := `requests are answered with 503: the etcd of the storage class "a" does not answer`; c.Message != want || c.LastTransitionTime.Time.Before(before) || c.ObservedGeneration != p.Generation {
		t.Errorf("%+v", c)
	}
	if code, _ := g.ask(t, "one", "one", "GET", configMaps, ""); code != http.StatusServiceUnavailable {
		t.Error(code)
	}
	if data, why, err := (&Client{g.root}).Kubeconfig(t.Context(), "one"); len(data) == 0 {
		t.Errorf("it has no kubeconfig: %s, %v", why, err)
	}
	for range 3 {
		g.look(t, "a")
		if err := g.keep(t.Context(), "one"); err != nil {
			t.Error(err)
		}
	}
	if now := g.stands(t, "one", isSilent); now.ResourceVersion != p.ResourceVersion {
		t.Errorf("the status was written although nothing has changed: %+v, before: %+v", now.Status, p.Status)
	}
	if o := g.await(t, "other", func(*Plane) bool { return true }); standing(o) != isServed {
		t.Errorf("a plane in another etcd: %+v", o.Status)
	}
	g.stop()
	g = startWith(t, cfg, l.given(around))
	if g.find("one") == nil || !g.find("one").isMade() {
		t.Error("it is made anew")
	}
	again := g.standings(t, "one")
	g.look(t, "a")
	if err := g.keep(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	if now := g.stands(t, "one", isSilent); now.ResourceVersion != p.ResourceVersion {
		t.Errorf("a start has written the status: %+v, before: %+v", now.Status, p.Status)
	}
	a.set(false)
	g.look(t, "a")
	p = g.stands(t, "one", isServed)
	if now := meta.FindStatusCondition(p.Status.Conditions, ready); now.LastTransitionTime.Before(&c.LastTransitionTime) {
		t.Errorf("%+v", now)
	}
	if code, answer := g.ask(t, "one", "one", "GET", configMaps+"/x", ""); code != http.StatusNotFound {
		t.Errorf("its template was applied again: %d %s", code, answer)
	}
	if !told.are(isServed, isSilent) {
		t.Errorf("it has said %q", told.all)
	}
	eventually(t, "it has said something else", func() bool { return again.are(isSilent, isServed) })
	var events []corev1.Event
	eventually(t, "there are no Events", func() bool { events = g.eventsOf(t, "one"); return len(events) >= 2 })
	reasons := make([]string, 0, len(events))
	for _, e := range events {
		reasons = append(reasons, e.Type+" "+e.Reason)
	}
	if slices.Sort(reasons); !slices.Equal(reasons, []string{"Normal Available", "Warning Unavailable"}) {
		t.Errorf("%q", reasons)
	}
}

// A plane whose storage class the server does not have is not ready.
func TestReadyWithoutClass(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	cfg := settings(t.TempDir())
	g := startWith(t, cfg, l.given(nil))
	g.create(t, "one", PlaneSpec{StorageClass: "a"})
	g.stop()
	given := l.given(nil)
	given.Classes = given.Classes[1:]
	g = startWith(t, cfg, given)
	p := g.stands(t, "one", isUnknown)
	if c := meta.FindStatusCondition(p.Status.Conditions, ready); !strings.Contains(c.Message, `there is no storage class "a"`) {
		t.Errorf("%+v", c)
	}
	g.stop()
	g = startWith(t, cfg, l.given(nil))
	g.stands(t, "one", isServed)
	g.must(t, "one", "GET", configMaps, "", nil)
}

// Of several servers that reach different etcds one says how a plane stands: its owner, or who would wake it. If that one ends, another does.
func TestReadyOfSeveral(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	var all []*ground
	var away []*outage
	for range 2 {
		cfg := settings(t.TempDir())
		cfg.NoListener, cfg.BindAddress, cfg.SecurePort = false, net.IPv4(127, 0, 0, 1), 0
		cfg.EtcdServers = []string{"http://given.example:2379"}
		a := &outage{DB: l.a}
		all = append(all, startWith(t, cfg, l.given(func(name string, db store.DB) store.DB {
			if name == "a" {
				return a
			}
			return db
		})))
		away = append(away, a)
	}
	set := func(n int, is bool) {
		away[n].set(is)
		all[n].look(t, "a")
	}
	one := all[0].create(t, "one", PlaneSpec{StorageClass: "a", Server: all[0].self()})
	if err := all[0].over(t, "one").Do(t.Context(), http.MethodGet, configMaps, "", nil, nil); err != nil {
		t.Fatal(err)
	}
	all[1].await(t, "one", func(p *Plane) bool { return p.Status.State == awake && p.Status.server() == all[0].self() })
	told := all[1].standings(t, "one")
	set(1, true) // for who does not have it
	for _, g := range all {
		if err := g.keep(t.Context(), "one"); err != nil {
			t.Error(err)
		}
	}
	set(0, true)
	all[1].stands(t, "one", isSilent)
	set(1, false) // who does not have it has nothing to say
	if err := all[1].keep(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	set(0, false)
	all[1].stands(t, "one", isServed)
	eventually(t, "both say how it stands", func() bool { return told.are(isServed, isSilent, isServed) })
	// Asleep: nobody is the owner, and who would wake it ends while no server reaches the etcd.
	all[0].prefer(t, "one", "")
	all[0].await(t, "one", func(p *Plane) bool { // it may be woken once more because spec.server has changed
		all[0].logged(all[0].find("one"), all[0].find("one").sleep())
		return p.Status.State == asleep
	})
	judge, other := 0, 1
	if all[0].owners.Load().Chosen(one.UID) != all[0].owners.Load().Self() {
		judge, other = 1, 0
	}
	set(judge, true)
	set(other, true)
	all[other].stands(t, "one", isSilent)
	all[judge].stop()
	set(other, false)
	eventually(t, "the other server does not come to say it", func() bool { return all[other].judges(all[other].find("one")) })
	for _, h := range all[other].all() {
		if all[other].misjudged(h) {
			all[other].queue.AddAfter(h.name, 0)
		}
	}
	all[other].stands(t, "one", isServed)
}
