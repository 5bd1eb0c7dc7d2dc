package planes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/observe/findings"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/server/planes/owners"
)

const serversPath = "/apis/flightrecorder.kanzen.io/v1alpha1/planeservers"

// figures asks a server what planes and servers do, until both are as they are to be.
func (g *ground) figures(t *testing.T, are func(planes map[string]v1alpha1.PlaneStat, servers map[string]v1alpha1.PlaneServer) bool) (map[string]v1alpha1.PlaneStat, map[string]v1alpha1.PlaneServer) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var p v1alpha1.PlaneStatList
		var s v1alpha1.PlaneServerList
		if err := errors.Join(g.root.Do(t.Context(), http.MethodGet, statsPath, "", nil, &p), g.root.Do(t.Context(), http.MethodGet, serversPath, "", nil, &s)); err != nil {
			t.Fatal(err)
		}
		planes, servers := map[string]v1alpha1.PlaneStat{}, map[string]v1alpha1.PlaneServer{}
		for _, one := range p.Items {
			planes[one.Name] = one
		}
		for _, one := range s.Items {
			servers[one.Name] = one
		}
		if are(planes, servers) {
			return planes, servers
		}
		if time.Now().After(end) {
			t.Fatalf("%+v\n%+v", p.Items, s.Items)
		}
	}
}

// Whichever server is asked tells of all planes, with their server, and of all servers: those that run, one that was stopped no more, and one
// that only a plane names.
func TestFleetFigures(t *testing.T) {
	s := startSeveral(t, 3)
	a, b, c := s.all[0], s.all[1], s.all[2]
	a.create(t, "one", PlaneSpec{Server: b.self()})
	a.create(t, "lost", PlaneSpec{Server: "10.9.9.9:6443"})
	a.create(t, "idle", PlaneSpec{})
	admin := a.over(t, "one")
	for n := range 5 {
		if err := admin.Do(t.Context(), http.MethodPost, configMaps, "application/json", map[string]any{"metadata": map[string]any{"name": fmt.Sprint("c", n)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range s.all {
		planes, servers := g.figures(t, func(planes map[string]v1alpha1.PlaneStat, servers map[string]v1alpha1.PlaneServer) bool {
			return planes["one"].Requests == 5 && len(servers) == 4
		})
		one := planes["one"]
		if one.State != awake || one.Server != b.self() || one.Wakes != 1 || one.Seats == 0 || planes["idle"].State != asleep || planes["idle"].Server != "" || len(planes) != 3 {
			t.Errorf("%s says of planes %+v", g.self(), planes)
		}
		for _, of := range s.all {
			is := servers[of.self()]
			if is.State != v1alpha1.ServerRunning || is.Answers != (of == g) || is.Started == nil || is.Version == "" || is.Host == "" || is.Memory == 0 || is.Error != "" {
				t.Errorf("%s says of %s %+v", g.self(), of.self(), is)
			}
		}
		if servers[a.self()].Passed != 5 || servers[b.self()].Requests != 5 || servers[b.self()].Awake != 1 || servers[b.self()].Named != 1 || servers[c.self()].Awake != 0 {
			t.Errorf("%s says of servers %+v", g.self(), servers)
		}
		if lost := servers["10.9.9.9:6443"]; lost.State != v1alpha1.ServerAway || lost.Named != 1 || lost.Since != nil {
			t.Errorf("%s says of a server that never was %+v", g.self(), lost)
		}
	}
	var narrow v1alpha1.PlaneStatList
	if err := c.root.Do(t.Context(), http.MethodGet, statsPath+"?fieldSelector="+url.QueryEscape("server="+b.self()), "", nil, &narrow); err != nil || len(narrow.Items) != 1 {
		t.Errorf("the planes of a server: %v, %+v", err, narrow.Items)
	}
	// What it did stays known when it sleeps.
	b.logged(b.find("one"), b.find("one").sleep())
	c.figures(t, func(planes map[string]v1alpha1.PlaneStat, _ map[string]v1alpha1.PlaneServer) bool {
		p := planes["one"]
		return p.State == asleep && p.Server == "" && p.Requests == 5
	})
	self := b.self()
	b.stop()
	s.all = []*ground{a, c}
	_, servers := c.figures(t, func(_ map[string]v1alpha1.PlaneStat, servers map[string]v1alpha1.PlaneServer) bool {
		return servers[self].State == v1alpha1.ServerAway
	})
	if is := servers[self]; is.Since != nil || is.Named != 1 { // it was stopped: it is there only because a plane names it
		t.Errorf("%+v", is)
	}
}

// A server that does not answer delays the answer about the others by less than a second, and is told of.
func TestSilentServer(t *testing.T) {
	s := startSeveral(t, 1)
	a := s.all[0]
	a.create(t, "one", PlaneSpec{})
	a.must(t, "one", "GET", configMaps, "", nil)
	hold := make(chan struct{})
	silent := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	silent.StartTLS() // with a certificate that is not the one in the log: TLS fails
	defer silent.Close()
	defer close(hold)
	listener := a.hang(t) // takes connections and says nothing
	for name, why := range map[string]string{silent.Listener.Addr().String(): "certificate", listener: "deadline"} {
		o, err := owners.New(owners.Config{DB: s.db, Name: name, Changed: func(types.UID) {}, Joined: func() {}, Clock: a.on.Clock, Guard: a.guard, Log: a.log})
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); o.Run(ctx) }()
		planes, servers := a.figures(t, func(_ map[string]v1alpha1.PlaneStat, servers map[string]v1alpha1.PlaneServer) bool {
			return servers[name].State == v1alpha1.ServerUnreachable
		})
		a.gathering.mu.Lock()
		a.gathering.at = time.Time{}
		a.gathering.mu.Unlock()
		began := time.Now()
		a.Stats()
		if took := time.Since(began); took > gatherWait+time.Second {
			t.Errorf("it took %v", took)
		}
		if is := servers[name]; is.Since == nil || !strings.Contains(is.Error, why) || planes["one"].Requests != 1 || servers[a.self()].Requests != 1 {
			t.Errorf("%s: %+v", why, servers)
		}
		cancel()
		<-done
	}
}

// hang returns the address of something that takes connections and never says anything.
func (g *ground) hang(t *testing.T) string {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	t.Cleanup(func() { _ = s.Listener.Close() })
	return s.Listener.Addr().String()
}

// Nobody but another server is told the figures: not a client of a plane whose request is passed on, whatever it says of itself.
func TestFiguresAreForServers(t *testing.T) {
	s := startSeveral(t, 2)
	a, b := s.all[0], s.all[1]
	a.create(t, "one", PlaneSpec{Server: b.self()})
	c := a.over(t, "one")
	for _, path := range []string{figuresPath, "/planes/one" + figuresPath} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(c.URL, pathPrefix+"one")+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Kanzen-Passed", "0")
		answer, err := c.RoundTripper.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
	o := a.owners.Load()
	answer, err := o.Ask(t.Context(), o.Named(b.self()), "/api/v1/secrets")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound {
		t.Errorf("a server is told more than figures: %s", answer.Status)
	}
}

// eventsOf are the Events of a plane.
func (g *ground) eventsOf(t *testing.T, plane string) []corev1.Event {
	t.Helper()
	var list corev1.EventList
	if err := g.root.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/default/events?fieldSelector=involvedObject.kind%3DPlane,involvedObject.name%3D"+plane, "", nil, &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// A server that stops has stored all Events before.
func TestLastEvents(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	cfg := settings(t.TempDir())
	g := startWith(t, cfg, l.given(nil))
	g.create(t, "one", PlaneSpec{})
	const n = 50
	for range n {
		g.event(g.find("one"), corev1.EventTypeNormal, "Told", "at the last moment")
	}
	g.stop()
	g = startWith(t, cfg, l.given(nil))
	told := 0
	for _, e := range g.eventsOf(t, "one") {
		if e.Reason == "Told" {
			told++
		}
	}
	if told != n {
		t.Errorf("%d of %d Events are there", told, n)
	}
}

// A plane has one Event for each time that another server gets it, which says from where and why.
func TestEventsOfPlanes(t *testing.T) {
	s := startSeveral(t, 2)
	a, b := s.all[0], s.all[1]
	p := a.create(t, "one", PlaneSpec{Server: a.self()})
	a.must(t, "one", "GET", configMaps, "", nil)
	told := func(at *ground, n int, message string) {
		t.Helper()
		eventually(t, "no Event: "+message, func() bool { return len(at.eventsOf(t, "one")) >= n })
		all := at.eventsOf(t, "one")
		ok := slices.ContainsFunc(all, func(e corev1.Event) bool {
			return e.Reason == "Moved" && e.Message == message && e.InvolvedObject.UID == p.UID && e.Type == corev1.EventTypeNormal && !e.FirstTimestamp.IsZero()
		})
		if len(all) != n || !ok {
			t.Errorf("no %q among %+v", message, all)
		}
	}
	a.prefer(t, "one", b.self())
	a.await(t, "one", func(p *Plane) bool { return p.Status.State == awake && p.Status.server() == b.self() })
	told(a, 1, fmt.Sprintf("from %s to %s, because spec.server names that", a.self(), b.self()))
	_, servers := a.figures(t, func(planes map[string]v1alpha1.PlaneStat, servers map[string]v1alpha1.PlaneServer) bool {
		return planes["one"].Moves == 1 && servers[b.self()].Moved == 1
	})
	if servers[b.self()].TakenOver != 0 {
		t.Errorf("%+v", servers)
	}
	gone := b.self()
	b.stop()
	told(a, 2, fmt.Sprintf("from %s to %s, because %s was stopped", gone, a.self(), gone))
	if n := counted(t, a.metrics.changes.WithLabelValues(owners.Stopped)); n != 1 {
		t.Errorf("%v planes have come to it from a server that was stopped", n)
	}
}

func counted(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	all, err := r.Gather()
	if err != nil || len(all) != 1 {
		t.Fatal(err)
	}
	return all[0].GetMetric()[0].GetCounter().GetValue()
}

// A plane that a server had that has crashed is told to be taken over, and a plane that cannot be woken once, not each time that it is tried.
func TestEventsAreFew(t *testing.T) {
	g := start(t, settings(t.TempDir()))
	g.create(t, "one", PlaneSpec{})
	h := g.find("one")
	g.went(owners.Change{Plane: h.uid, From: "a:1", To: "b:1", Why: owners.TakenOver, Silent: 10200 * time.Millisecond})
	fails, ctx := errors.New("it is broken"), t.Context()
	for range 5 {
		h.wakesNot(ctx, fails)
	}
	h.wakesNot(ctx, nil)
	h.wakesNot(ctx, fails) // it was just told
	gone, cancel := context.WithCancel(ctx)
	cancel()
	h.wakesNot(gone, fails)
	for _, why := range []error{errOver, errAwaitsImport, &elsewhereError{&owners.Server{}}} {
		h.wakesNot(ctx, why)
	}
	eventually(t, "no Events", func() bool { return len(g.eventsOf(t, "one")) >= 2 })
	got := map[string]string{}
	for _, e := range g.eventsOf(t, "one") {
		got[e.Reason] = e.Message
		if e.Type != corev1.EventTypeWarning {
			t.Errorf("%+v", e)
		}
	}
	if len(got) != 2 || got["TakenOver"] != "by b:1 from a:1, of which nothing was heard for 10.2s" || !strings.HasSuffix(got["FailedToWake"], ": it is broken") {
		t.Errorf("%+v", got)
	}
	for range 2 * maxEvents { // nobody waits for them
		g.event(h, corev1.EventTypeNormal, "Moved", "")
	}
}

// What a fleet is judged by is in the log and in statuses: who has which planes, and how many requests these get.
func TestState(t *testing.T) {
	s := startSeveral(t, 2)
	a, b := s.all[0], s.all[1]
	for _, name := range []string{"one", "two"} {
		a.create(t, name, PlaneSpec{Server: b.self()})
		a.must(t, name, "GET", configMaps, "", nil)
	}
	if start(t, settings(t.TempDir())).State() != nil {
		t.Error("a single server has a fleet")
	}
	h, now := a.find("one"), a.on.Clock.Now()
	name := b.self()
	status := func(requests int64, after time.Duration) {
		h.paced(&PlaneStatus{Server: &name, Requests: requests}, now.Add(after))
	}
	h.mu.Lock()
	h.pace = pace{}
	h.mu.Unlock()
	status(100, 0)
	status(150, time.Second) // too soon to say
	if rate := h.load(name, now); rate != 0 {
		t.Error(rate)
	}
	status(6100, time.Minute)
	if rate := h.load(name, now.Add(time.Minute)); rate != 100 {
		t.Error(rate)
	}
	if h.load(a.self(), now) != 0 || h.load(name, now.Add(time.Hour)) != 0 {
		t.Error("a plane that is elsewhere, or that nobody uses any more, has a load")
	}
	status(10, 2*time.Minute) // its server was started anew
	if rate := h.load(name, now.Add(2*time.Minute)); rate != 0 {
		t.Error(rate)
	}
	eventually(t, "a server does not know who has which planes", func() bool {
		f := a.State()
		i := slices.IndexFunc(f.Servers, func(s *findings.FleetServer) bool { return s.Name == name })
		return len(f.Servers) == 2 && i >= 0 && f.Servers[i].Awake == 2 && f.Servers[i].Named == 2 && f.Servers[i].Runs && slices.Equal(f.Servers[i].Naming, []string{"one", "two"}) && len(f.Free) == 0
	})
	changes := []owners.Change{{Plane: "1", From: "a", To: "b", Why: owners.Moved}, {Plane: "1", From: "b", To: "c", Why: owners.TakenOver}, {Plane: "2", From: "b", To: "a", Why: owners.Moved}, {Plane: "gone", From: "b", To: "a"}}
	m := movesOf(changes, map[types.UID]string{"1": "one", "2": "two"})
	if len(m) != 2 || m[0].Name != "one" || m[0].Moves != 2 || !slices.Equal(m[0].Between, []string{"a", "b", "c"}) || m[0].Why[owners.TakenOver] != 1 {
		t.Errorf("%+v", m)
	}
}
