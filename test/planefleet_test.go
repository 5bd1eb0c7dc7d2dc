package test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// planeServer is what a server says of one that shares its planes.
type planeServer struct {
	Metadata               metav1.ObjectMeta
	State                  string
	Since                  *metav1.Time
	Awake, Named, Requests int64
	Passed, PassedFailed   int64
	Moved, TakenOver       int64
	Memory                 int64
}

// servers asks a server for all of them, by name, and returns how long that took.
func (s *planeServers) servers(n int) (map[string]planeServer, time.Duration) {
	s.t.Helper()
	began := time.Now()
	raw, err := s.all[n].client().RESTClient().Get().AbsPath("/apis/flightrecorder.kanzen.io/v1alpha1/planeservers").DoRaw(s.t.Context())
	must(s.t, err)
	took := time.Since(began)
	var list struct{ Items []planeServer }
	must(s.t, json.Unmarshal(raw, &list))
	out := map[string]planeServer{}
	for _, one := range list.Items {
		out[one.Metadata.Name] = one
	}
	return out, took
}

// TestPlaneFleet looks after three servers that share planes as their operator does, at any of them: with top, kubectl, diagnose, metrics and
// the console, while one is killed and comes back.
func TestPlaneFleet(t *testing.T) {
	t.Parallel()
	s := startPlaneServers(t, 3)
	p := planesOf{s.all[1], t}
	names := make([]string, 6)
	for n := range names {
		names[n] = fmt.Sprint("team-", n)
		body := fmt.Sprintf(`{"apiVersion":"planes.kanzen.io/v1","kind":"Plane","metadata":{"name":%q},"spec":{"server":%q}}`, names[n], s.all[n%3].address)
		must(t, s.all[0].client().RESTClient().Post().AbsPath("/apis/planes.kanzen.io/v1/planes").SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error())
	}
	p.kubectl(p.kubeconfig(), "", "wait", "--for=condition=Ready", "planes", "--all", "--timeout=180s")
	for n, name := range names {
		s.asks(n%3, name, time.Minute)
		s.asks((n+1)%3, name, time.Minute) // passed on
	}
	for n := range s.all {
		servers, _ := s.servers(n)
		for _, of := range s.all {
			if is := servers[of.address]; is.State != "Running" || is.Awake != 2 || is.Named != 2 || is.Requests < 4 || is.Passed < 2 || is.Memory == 0 {
				t.Errorf("server %d says of %s: %+v", n, of.address, is)
			}
		}
	}
	s.top(names)

	b := browser(t, s.all[1].address)
	b.open(s.all[1].consoleLink(t), "#nav a[aria-current]")
	b.shows("#/planes", "team-0", "team-5", "6 of 6 shown", "passed on/s", s.all[0].address, s.all[2].address)
	stop := s.busy(names)
	within(t, time.Minute, "the page shows what servers and planes do in a second, and what is passed on", func(context.Context) bool {
		return got(b, chromedp.Evaluate[bool](`[['Servers', 3, 3], ['Servers', 5, 3], ['Planes', 3, 6]].every(([table, column, rows]) => {
			const cells = [...document.querySelectorAll('#main table[aria-label=' + table + '] tbody tr')].map(r => parseFloat(r.cells[column].textContent));
			return cells.length === rows && cells.every(n => n > 0);
		})`))
	})
	b.picture("planes")
	stop()
	got(b, chromedp.Evaluate[bool](fmt.Sprintf(`(n => (n.value = %q, n.dispatchEvent(new Event('change'))))(document.querySelector('#main select[aria-label=Server]'))`, s.all[0].address)))
	b.awaits("a filter by server", "#main", "2 of 6 shown")
	b.shows("#/planes?server="+s.all[2].address, "2 of 6 shown", "team-2", "team-5")

	gone := s.all[0].address
	s.all[0].end(syscall.SIGKILL)
	within(t, time.Minute, "the server that was killed is away", func(context.Context) bool {
		servers, took := s.servers(1)
		if took > 20*time.Second { // a busy machine takes its time, the server itself less than a second
			t.Errorf("the answer took %v", took)
		}
		is := servers[gone]
		return is.State == "Away" && is.Since != nil
	})
	within(t, time.Minute, "the others have what it had", func(context.Context) bool {
		servers, _ := s.servers(2)
		return servers[s.all[1].address].Awake+servers[s.all[2].address].Awake == int64(len(names)) && servers[s.all[1].address].TakenOver+servers[s.all[2].address].TakenOver == 2
	})
	within(t, time.Minute, "Events tell of it", func(context.Context) bool {
		all := p.kubectl(p.kubeconfig(), "", "get", "events", "-n", "default", "--field-selector", "reason=TakenOver", "-o", `jsonpath={range .items[*]}{.involvedObject.name} {.message}{"\n"}{end}`)
		return strings.Count(all, "\n") == 2 && strings.Contains(all, "team-0 by ") && strings.Contains(all, "team-3 by ") && strings.Contains(all, "from "+gone+", of which nothing was heard for ")
	})
	if said := p.kubectl(p.kubeconfig(), "", "describe", "plane", names[0]); !strings.Contains(said, "TakenOver") {
		t.Errorf("kubectl describe does not tell of it:\n%s", said)
	}
	s.all[1].diagnosed(t, "PlaneServerAway", "Warning", "server "+gone+" does not run, and 2 planes name it (spec.server)", "it has crashed, or lost etcd")
	metrics, err := s.all[1].client().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	must(t, err)
	for _, want := range []string{`kanzen_plane_servers{state="Away"} 1`, `kanzen_plane_servers{state="Running"} 2`, "kanzen_planes_without_owner 0", `kanzen_plane_owner_changes_total{why="TakenOver"}`, "kanzen_plane_passed_requests_failed_total"} {
		if !strings.Contains(string(metrics), "\n"+want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	b.shows("#/planes", "Away since", "team-0", "6 of 6 shown")
	b.run(chromedp.EmulateViewport(390, 844))
	b.shows("#/planes", "Away since")
	if over := got(b, chromedp.Evaluate[int]("document.documentElement.scrollWidth - document.documentElement.clientWidth")); over > 0 {
		t.Errorf("the page of planes is %d pixels too wide for a phone", over)
	}
	b.clean()

	_, port, _ := strings.Cut(gone, ":")
	s.all[0] = serve(t, s.all[0].dir, append(s.flags[:len(s.flags):len(s.flags)], "--secure-port="+port)...)
	within(t, time.Minute, "it has its planes again", func(context.Context) bool {
		servers, _ := s.servers(1)
		return servers[gone].State == "Running" && servers[gone].Awake == 2 && servers[gone].Moved == 2
	})
	within(t, time.Minute, "Events tell that its planes are back", func(context.Context) bool {
		said := p.kubectl(p.kubeconfig(), "", "get", "events", "-n", "default", "--field-selector", "reason=Moved", "-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`)
		return strings.Count(said, "to "+gone+", because spec.server names that") == 2
	})
	s.balances(names)
	checks := axe(t) // or skips what is below
	got(b, chromedp.Evaluate[bool](checks+"; true"))
	b.shows("#/planes", gone)
	b.accessible("the page of planes of several servers")
}

// balances has one server take planes from another that has all.
func (s *planeServers) balances(names []string) {
	s.t.Helper()
	for _, name := range names {
		for _, to := range []string{s.all[1].address, ""} {
			if stdout, stderr, code := output(s.t, binaries.kanzen, "plane", "move", name, "--data-dir", s.all[0].dir, "--to", to); code != 0 {
				s.t.Fatalf("move: %d %s%s", code, stdout, stderr)
			}
		}
	}
	balance := func(args ...string) string {
		stdout, stderr, code := output(s.t, binaries.kanzen, append([]string{"plane", "balance", "--window=1s", "--data-dir", s.all[0].dir}, args...)...)
		if code != 0 {
			s.t.Fatalf("balance: %d %s%s", code, stdout, stderr)
		}
		return stdout
	}
	if said := balance(); strings.Count(said, "kanzen plane move ") != 4 || !strings.Contains(said, "nothing was moved") {
		s.t.Errorf("six planes on one of three servers:\n%s", said)
	}
	said := balance("--yes")
	servers, _ := s.servers(2)
	for _, k := range s.all {
		if servers[k.address].Awake != 2 {
			s.t.Errorf("%+v after\n%s", servers[k.address], said)
		}
	}
	p := planesOf{s.all[1], s.t}
	if pinned := strings.TrimSpace(p.kubectl(p.kubeconfig(), "", "get", "planes", "-o", "jsonpath={.items[*].spec.server}")); pinned != "" {
		s.t.Errorf("planes are to stay on %s", pinned)
	}
}

// busy has each plane asked for something again and again, at each server, until stop is called.
func (s *planeServers) busy(names []string) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var all sync.WaitGroup
	for n, name := range names {
		for at := range s.all {
			c := kubernetes.NewForConfigOrDie(s.at(at, name))
			pause := time.Duration(20+30*n) * time.Millisecond
			all.Go(func() {
				for ctx.Err() == nil {
					_, _ = c.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}) // it ends with ctx
					time.Sleep(pause)
				}
			})
		}
	}
	return func() { cancel(); all.Wait() }
}

// top looks at the planes at each server.
func (s *planeServers) top(names []string) {
	s.t.Helper()
	for _, k := range s.all {
		stdout, stderr, code := output(s.t, binaries.kanzen, "top", "--planes", "--once", "--window=2s", "--kubeconfig", k.kubeconfig())
		for _, want := range append([]string{"SERVERS", "PASSED/S", "SERVER ", s.all[0].address, s.all[1].address, s.all[2].address}, names...) {
			if code != 0 || !strings.Contains(stdout, want) {
				s.t.Errorf("top at %s: %d, no %q in\n%s%s", k.address, code, want, stdout, stderr)
			}
		}
	}
	stdout, stderr, code := output(s.t, binaries.kanzen, "top", "--planes", "--window=2s", "-o", "json", "--kubeconfig", s.all[2].kubeconfig())
	var said struct {
		Planes       []struct{ Name, Server, State string }
		PlaneServers []struct {
			Name  string
			Awake int64
		}
	}
	if err := json.Unmarshal([]byte(stdout), &said); err != nil || code != 0 || len(said.Planes) != len(names) || len(said.PlaneServers) != len(s.all) {
		s.t.Fatalf("%v, %d: %s%s", err, code, stdout, stderr)
	}
	for _, p := range said.Planes {
		if p.State != "Awake" || p.Server == "" {
			s.t.Errorf("%+v", p)
		}
	}
}
