package main

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

var update = flag.Bool("update", false, "Write the screens of testdata/top anew.")

// noon is when the screens are drawn.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.Local)

func lasting(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

// busy is a server with a noisy tenant, a slow webhook, a reader that does not read, and names that attack the terminal.
func busy() *top {
	t := &top{asker: &asker{url: "https://127.0.0.1:6443"}, agent: "kanzen-top/0.1.0 (1)", window: 5 * time.Second}
	number := int64(1000)
	add := func(came time.Time, rec v1alpha1.Record) {
		number++
		rec.Number, rec.Time, rec.SourceIP = number, metav1.NewMicroTime(came.Add(-rec.Duration.Duration)), "10.0.0.7"
		if rec.Weight == 0 {
			rec.Weight = 1
		}
		t.add(&rec, came)
	}
	for n := range 300 { // five minutes
		came := noon.Add(time.Duration(n-300) * time.Second)
		add(came, v1alpha1.Record{User: "system:serviceaccount:tenant-a:controller-of-widgets-and-gadgets", UserAgent: "widget-controller-manager/v1.2.3 (linux/amd64)", Verb: "update", Group: "example.com", Resource: "widgets", Namespace: "tenant-a",
			Name: "w", Code: 200, Duration: lasting(time.Duration(1+n%7) * time.Millisecond), ResponseBytes: 2048, Weight: int64(1 + n/30)})
		if n%10 == 6 {
			add(came, v1alpha1.Record{User: "alice", UserAgent: "kubectl/v1.37.2", Verb: "create", Resource: "configmaps", Namespace: "shop", Name: "cart", Code: 201, Duration: lasting(2600 * time.Millisecond), ResponseBytes: 300,
				Layers: []v1alpha1.Layer{{Name: "etcd", Duration: lasting(3 * time.Millisecond)}}, Steps: []v1alpha1.Step{{Kind: "webhook", Name: "images/check.corp.example", Result: "Allowed", Duration: lasting(2500 * time.Millisecond)}}})
		}
		if n%25 == 24 {
			add(came, v1alpha1.Record{User: "\x1b[2Jmallory\n\u202e界界", UserAgent: "\x1b]0;owned\x07/1", Verb: "get", Resource: "secrets", Namespace: "shop", Name: "\x1b[31mkey", Code: 403, Duration: lasting(90 * time.Microsecond)})
			add(came, v1alpha1.Record{User: "bob", UserAgent: "helm/v3", Verb: "patch", Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web", Code: 504, Duration: lasting(11 * time.Second)})
			add(came, v1alpha1.Record{User: "admin", UserAgent: t.agent, Verb: "list", Group: "flightrecorder.kanzen.io", Resource: "watches", Code: 200, Duration: lasting(time.Millisecond), Weight: 100})
		}
		t.pass(came)
	}
	s := &t.server
	for n := range 3 {
		w := v1alpha1.Watch{User: "kubernetes-admin", UserAgent: "dashboard/9", SourceIP: "10.0.0.9", Resource: "configmaps", Namespace: "shop", Events: int64(40 * n), Bytes: 2 << 20, Lag: lasting(time.Duration(3*n) * time.Second),
			Revision: 4711, Began: metav1.NewMicroTime(noon.Add(-time.Hour))}
		w.Name = fmt.Sprintf("w%d", n+1)
		w.ObjectMeta.Name, w.Name = w.Name, ""
		s.watches = append(s.watches, w)
	}
	s.watches = append(s.watches, v1alpha1.Watch{ObjectMeta: metav1.ObjectMeta{Name: "w9"}, User: "admin", UserAgent: t.agent, Resource: "requests"})
	s.rate = map[string]float64{"w2": 12.5}
	s.webhooks = []v1alpha1.WebhookStat{{Kind: "webhook", Step: "images/check.corp.example", P50: lasting(2500 * time.Millisecond), P99: lasting(2600 * time.Millisecond), PerMinute: 6, Refused: 2},
		{Kind: "policy", Step: "no-latest-tag", P50: lasting(20 * time.Microsecond), P99: lasting(80 * time.Microsecond), PerMinute: 180.5, Failed: 1}}
	s.findings = []v1alpha1.Finding{{Severity: v1alpha1.SeverityError}, {Severity: v1alpha1.SeverityWarning}}
	s.stores = []v1alpha1.Datastore{{Bytes: 48 << 20, Latency: lasting(1200 * time.Microsecond)}}
	s.levels = []v1alpha1.PriorityLevel{{Seats: 245, SeatsInUse: 3, Waiting: 2}, {Exempt: true, SeatsInUse: 50}}
	s.memory, s.cpu = 96<<20, .42
	s.told.findings, s.told.stores, s.told.levels, s.told.process = true, true, true, true
	t.pass(noon)
	return t
}

// withPlanes is a busy server with planes: one that is flooded, one that nobody uses, and one whose name attacks the terminal.
func withPlanes() *top {
	t := busy()
	plane := func(name, state string, requests, storage int64) v1alpha1.PlaneStat {
		p := v1alpha1.PlaneStat{State: state, Requests: requests, Watches: requests / 100, Objects: 40 + requests, Bytes: 2048 * requests, Wakes: 1, RefusedBy: v1alpha1.RefusedPlane{Storage: storage}}
		p.Name, p.Refused = name, storage
		return p
	}
	flooded := plane("team-a", "Awake", 5000, 0)
	flooded.Seats, flooded.SeatsInUse, flooded.Waiting, flooded.RefusedBy.RequestsPerSecond, flooded.Refused = 16, 16, 120, 900, 900
	s := &t.server.planes
	s.all = []v1alpha1.PlaneStat{flooded, plane("pull-request-4711-of-the-repository-with-a-long-name", "Awake", 300, 7), plane("\x1b[2Jmallory", "Awake", 20, 0), plane("sandbox", "Asleep", 0, 0)}
	s.told, s.awake, s.asleep = true, 3, 9997
	s.rate, s.refused = map[string]float64{"team-a": 812.4, "pull-request-4711-of-the-repository-with-a-long-name": 12}, map[string]float64{"team-a": 90}
	return t
}

// withServers is a busy server that shares its planes with others: one that runs, one that has crashed, one that does not answer and whose name
// attacks the terminal, and one that only planes name.
func withServers() *top {
	t := withPlanes()
	s := &t.server.planes
	server := func(name, state string, awake int64) v1alpha1.PlaneServer {
		is := v1alpha1.PlaneServer{State: state, Awake: awake}
		is.Name = name
		if state == v1alpha1.ServerRunning {
			started := metav1.NewTime(noon.Add(-3 * time.Hour))
			is.Started, is.Host, is.Memory, is.Watches = &started, "node-"+name[len(name)-6:len(name)-5], 96<<20, 70
		} else {
			since := metav1.NewTime(noon.Add(-90 * time.Second))
			is.Since = &since
		}
		return is
	}
	lost := server("10.0.0.9:6443", v1alpha1.ServerAway, 0)
	lost.Since, lost.Named = nil, 2
	s.servers = []v1alpha1.PlaneServer{server("10.0.0.1:6443", v1alpha1.ServerRunning, 2), server("10.0.0.2:6443", v1alpha1.ServerRunning, 1), server("10.0.0.3:6443", v1alpha1.ServerAway, 0),
		server("\x1b[2J10.0.0.4:6443", v1alpha1.ServerUnreachable, 0), lost}
	s.serverRates = map[string]serverRates{"10.0.0.1:6443": {requests: 812.4, refused: 90, passed: 3.5, failed: .2}, "10.0.0.2:6443": {requests: 12, passed: 400}}
	for n, name := range []string{"10.0.0.1:6443", "10.0.0.2:6443", "10.0.0.1:6443"} {
		s.all[n].Server, s.all[n].Moves = name, int64(n)
	}
	return t
}

// slowCreate is what the server says of a request.
func slowCreate() *v1alpha1.Request {
	after := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	rec := &v1alpha1.Request{Record: v1alpha1.Record{Number: 1, Time: metav1.NewMicroTime(noon), Duration: lasting(2600 * time.Millisecond), User: "alice", UserAgent: "kubectl/v1.37.2", SourceIP: "10.0.0.7", AuditID: "0-1-2",
		Verb: "create", Resource: "configmaps", Namespace: "shop", Name: "cart", Code: 403, Reason: "Forbidden", Message: "images must come from \x1b[5mregistry.corp",
		Layers: []v1alpha1.Layer{{Name: "authentication", After: after(0), Duration: lasting(20 * time.Microsecond)}, {Name: "mutating-webhook", After: after(50 * time.Millisecond), Duration: lasting(1300 * time.Millisecond)},
			{Name: "etcd", After: after(2550 * time.Millisecond), Duration: lasting(50 * time.Millisecond)}, {Name: "response", Duration: lasting(time.Millisecond)}},
		Steps: []v1alpha1.Step{{Kind: "webhook", Name: "images/check.corp.example", After: lasting(50 * time.Millisecond), Duration: lasting(1300 * time.Millisecond), Result: "Refused"},
			{Kind: "webhook", Name: "costs/budget.corp.example", After: lasting(1400 * time.Millisecond), Duration: lasting(1100 * time.Millisecond), Result: "TimedOut", Reason: "DeadlineExceeded"}}}}
	rec.ObjectMeta.Name = "r1"
	return rec
}

// drawn is a screen as text; sequences of the terminal are shown as \e.
func drawn(lines []line, colours bool) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.ReplaceAll(l.text(colours), "\x1b", `\e`) + "\n")
	}
	return b.String()
}

// TestTopScreens compares screens of several sizes, and after keys, with those in testdata/top.
func TestTopScreens(t *testing.T) {
	for _, c := range []struct {
		name, keys    string
		width, height int
		colours       bool
	}{
		{name: "clients-60x10", keys: "2", width: 60, height: 10},
		{name: "clients-60x60", keys: "2", width: 60, height: 60},
		{name: "clients-200x10", keys: "2", width: 200, height: 10},
		{name: "clients-200x60", keys: "2", width: 200, height: 60},
		{name: "users-80x24", keys: "1", width: 80, height: 24},
		{name: "resources-120x30", keys: "3", width: 120, height: 30},
		{name: "colours-100x16", keys: "1j", width: 100, height: 16, colours: true},
		{name: "sorted-by-p99-100x16", keys: "1sssss\x1b[ZgS" + "ssss", width: 100, height: 16},
		{name: "sorted-by-bytes-60x12", keys: "1S", width: 60, height: 12},
		{name: "webhooks-60x12", keys: "4", width: 60, height: 12},
		{name: "watches-100x16", keys: "5", width: 100, height: 16},
		{name: "watches-of-a-client-100x16", keys: "5\r", width: 100, height: 16},
		{name: "filtering-100x16", keys: "1/ALI", width: 100, height: 16},
		{name: "filtered-100x16", keys: "1/alicx\x7fe\r", width: 100, height: 16},
		{name: "nothing-found-100x16", keys: "1/nobody like this\r", width: 100, height: 16},
		{name: "requests-60x12", keys: "1/alice\r\r", width: 60, height: 12},
		{name: "requests-200x16", keys: "1/mallory\r\r\x1b[B", width: 200, height: 16},
		{name: "calls-100x16", keys: "4\r", width: 100, height: 16},
		{name: "a-request-60x24", keys: "1/alice\r\r\r", width: 60, height: 24},
		{name: "a-request-200x24", keys: "1/alice\r\r\r", width: 200, height: 24},
		{name: "a-request-100x10", keys: "1/alice\r\r\r", width: 100, height: 10},
		{name: "a-request-scrolled-100x10", keys: "1/alice\r\r\rjj\x1b[6~k", width: 100, height: 10},
		{name: "back-100x16", keys: "1/alice\r\r\r\x1b\x7f\x1b", width: 100, height: 16},
		{name: "own-100x16", keys: "1o", width: 100, height: 16},
		{name: "paused-100x16", keys: "1p", width: 100, height: 16},
		{name: "planes-60x12", keys: "6", width: 60, height: 12},
		{name: "planes-120x16", keys: "6", width: 120, height: 16},
		{name: "planes-by-watches-120x16", keys: "6ss", width: 120, height: 16},
		{name: "planes-filtered-100x16", keys: "6/pull\r", width: 100, height: 16},
		{name: "plane-80x24", keys: "6\r", width: 80, height: 24},
		{name: "plane-and-back-100x16", keys: "6j\r\r\x1b", width: 100, height: 16},
		{name: "fleet-80x24", keys: "6", width: 80, height: 24},
		{name: "fleet-160x16", keys: "6", width: 160, height: 16},
		{name: "fleet-colours-120x20", keys: "6", width: 120, height: 20, colours: true},
		{name: "fleet-filtered-120x20", keys: "6/10.0.0.2\r", width: 120, height: 20},
		{name: "fleet-plane-80x30", keys: "6j\r", width: 80, height: 30},
		{name: "keys-100x20", keys: "?", width: 100, height: 20},
		{name: "keys-60x24", keys: "?", width: 60, height: 24},
		{name: "watches-60x12", keys: "5", width: 60, height: 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := busy()
			if strings.HasPrefix(c.name, "plane") {
				top = withPlanes()
			}
			if strings.HasPrefix(c.name, "fleet") {
				top = withServers()
			}
			for _, key := range keysOf(c.keys) {
				if !top.press(key) {
					t.Fatalf("%q ends top", key)
				}
			}
			if p := top.place(); p != nil && p.request != "" {
				p.record = slowCreate()
			}
			got, file := drawn(top.screen(c.width, c.height), c.colours), filepath.Join("testdata", "top", c.name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(file); err != nil || got != string(want) {
				t.Errorf("%v; got\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}

// The screen fits terminals of any size, whatever there is to show, after any keys.
func TestTopFits(t *testing.T) {
	for name, top := range map[string]*top{"idle": {window: time.Second}, "busy": busy(), "planes": withPlanes(), "fleet": withServers(), "no planes": {window: time.Second, onPlanes: true, tab: planesTab}} {
		for _, key := range []string{"", "\x1b[B", "s", "g", "k", "\r", "j", "\r", "\r", "\x1b", "g", "\x1b[6~", "\r", "/", "界", "\r", "g", "g", "\r", "S", "p", "o", "?", "x", "\x1b[F", "\x1b[", "\x00", "q"} {
			if more := top.press(key); more == (key == "q") {
				t.Errorf("%q: goes on: %t", key, more)
			}
			for _, width := range []int{1, 20, 80, 400} {
				for _, height := range []int{1, 2, 5, 24, 200} {
					lines := top.screen(width, height)
					if len(lines) != height {
						t.Errorf("%s, %q, %d by %d: %d lines", name, key, width, height, len(lines))
					}
					for _, l := range lines {
						if l.cells() > width || strings.ContainsAny(l.text(false), "\n\x1b\u202e") {
							t.Errorf("%s, %q, %d by %d: %q", name, key, width, height, l.text(false))
						}
					}
				}
			}
		}
	}
}

// While top is paused its screen stays the same, and nothing is lost.
func TestTopPauses(t *testing.T) {
	top := busy()
	rate := top.all().Rate
	top.press("p")
	before := drawn(top.screen(100, 20), true)
	for n := range 40 {
		top.add(&v1alpha1.Record{User: "late", Verb: "get", Resource: "pods", Code: 200, Weight: 1}, noon.Add(time.Duration(n)*time.Second))
		top.pass(noon.Add(time.Duration(n) * time.Second))
	}
	if after := drawn(top.screen(100, 20), true); after != before {
		t.Errorf("got\n%s\nwant\n%s", after, before)
	}
	top.press(" ")
	top.pass(noon.Add(39 * time.Second))
	if now := top.all().Rate; now == rate || now != 1.2 { // six seconds' requests in a window of five, both ends counted
		t.Errorf("%.1f requests a second, before the pause %.1f", now, rate)
	}
}

func TestTopSummary(t *testing.T) {
	top := &top{window: 5 * time.Second, now: noon}
	if got := drawn(top.summary(100), false); !strings.Contains(got, "Nothing was asked within 5s.") {
		t.Error(got)
	}
	got := drawn(busy().summary(200), false)
	for _, want := range []string{"requests/s", "USERS", "CLIENTS", "RESOURCES", "WEBHOOKS AND POLICIES", "WATCHES", "no-latest-tag", "configmaps shop: dashboard/9 10.0.0.9 by kubernetes-admin"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// Texts are measured in cells, not in characters.
func TestCells(t *testing.T) {
	for _, c := range []struct {
		text, want string
		width      int
	}{{"tenant-a-controller", "tenant…oller", 12}, {"界界界", "界…", 4}, {"e\u0301a", "e\u0301a", 2}, {"abc", "", 0}, {"abc", "…", 1}, {"", "", 3}} {
		if got := shortened(c.text, c.width); got != c.want || cells(got) > c.width {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
	if got := sparks([]float64{0, 1, 4, 8}); got != " ▂▅█" {
		t.Errorf("%q", got)
	}
}

func TestTrends(t *testing.T) {
	var r trends
	k := trendKey{0, "a"}
	for n := range int64(200) {
		r.add(k, 1000+n, float64(n))
	}
	for step, want := range map[int64][2]float64{1200: {140, 199}, 1230: {170, 0}, 1300: {0, 0}} {
		if got := r.before(k, step); len(got) != trendSteps || got[0] != want[0] || got[trendSteps-1] != want[1] {
			t.Errorf("before %d: %v, want from %v to %v", step, got, want[0], want[1])
		}
	}
	for n := range 2 * maxTrends {
		r.add(trendKey{1, fmt.Sprint(n)}, 1300, 1)
	}
	if len(r.of) > maxTrends {
		t.Errorf("%d trends", len(r.of))
	}
}

// What planes do per second is computed from two looks, and a server without planes is told apart from one that has none yet.
func TestTopPlanes(t *testing.T) {
	requests := []string{"100", "1100", "5"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch last := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]; last {
		case "metrics":
			fmt.Fprint(w, "process_resident_memory_bytes 1\nprocess_cpu_seconds_total 1\nkanzen_planes{state=\"Asleep\"} 1500\nkanzen_planes{state=\"Awake\"} 1\n")
		case "planestats":
			fmt.Fprintf(w, `{"items":[{"metadata":{"name":"a"},"state":"Awake","requests":%s,"refused":%s}]}`, requests[0], requests[0])
			if selector := r.URL.Query().Get("fieldSelector"); selector != "state=Awake" {
				t.Errorf("of 1,501 planes %q were asked for", selector)
			}
		default:
			fmt.Fprint(w, `{"items":[]}`)
		}
	}))
	defer s.Close()
	top := &top{asker: &asker{url: s.URL, http: s.Client()}, window: time.Second}
	before := state{}
	for n, want := range []float64{0, 100, 0} {
		now := top.look(t.Context(), before)
		if now.trouble != nil || !now.planes.told || now.planes.asleep != 1500 {
			t.Fatalf("%v, %+v", now.trouble, now.planes)
		}
		if got := now.planes.rate["a"]; n > 0 && (got < want*.9 || got > want*1.1) {
			t.Errorf("look %d: %v requests a second, want %v", n, got, want)
		}
		before, requests = now, requests[min(1, len(requests)-1):]
		before.slow = before.slow.Add(-10 * time.Second)
	}
}

// What servers do per second is computed from two looks at the same run of each; what a plane does, from two looks at it on the same server.
func TestTopServers(t *testing.T) {
	looks := 0
	started := noon.UTC().Format(time.RFC3339)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch last := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]; last {
		case "metrics":
			looks++
			fmt.Fprint(w, "process_resident_memory_bytes 1\nprocess_cpu_seconds_total 1\nkanzen_planes{state=\"Asleep\"} 9\nkanzen_planes{state=\"Awake\"} 1\n")
		case "planestats":
			server := "a:1"
			if looks > 2 {
				server = "b:1"
			}
			fmt.Fprintf(w, `{"items":[{"metadata":{"name":"one"},"state":"Awake","server":%q,"requests":%d},{"metadata":{"name":"two"},"state":"Awake","server":"b:1","requests":%d}]}`, server, looks*1000, looks*100)
		case "planeservers":
			restarted := started
			if looks > 2 {
				restarted = noon.Add(time.Hour).UTC().Format(time.RFC3339)
			}
			fmt.Fprintf(w, `{"items":[{"metadata":{"name":"a:1"},"state":"Running","started":%q,"awake":3,"requests":%d,"passed":%d},{"metadata":{"name":"b:1"},"state":"Running","started":%q,"awake":2,"requests":%d},
				{"metadata":{"name":"c:1"},"state":"Away","since":%q}]}`, started, looks*1000, looks*10, restarted, looks*100, started)
		default:
			fmt.Fprint(w, `{"items":[]}`)
		}
	}))
	defer s.Close()
	top := &top{asker: &asker{url: s.URL, http: s.Client()}, window: time.Second, onPlanes: true, tab: planesTab}
	var all [3]state
	for n := range all {
		before := state{}
		if n > 0 {
			before = all[n-1]
			before.slow = before.slow.Add(-10 * time.Second)
		}
		if all[n] = top.look(t.Context(), before); all[n].trouble != nil {
			t.Fatal(all[n].trouble)
		}
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if got < want*.9 || got > want*1.1 {
			t.Errorf("%s: %v a second, want %v", what, got, want)
		}
	}
	second, third := &all[1].planes, &all[2].planes
	if second.awake != 5 || second.asleep != 5 {
		t.Errorf("%d are awake, %d asleep", second.awake, second.asleep)
	}
	near("a", second.serverRates["a:1"].requests, 100)
	near("passed by a", second.serverRates["a:1"].passed, 1)
	near("b", second.serverRates["b:1"].requests, 10)
	near("one", second.rate["one"], 100)
	near("b, which was started anew", third.serverRates["b:1"].requests, 0)
	near("one, which has moved", third.rate["one"], 0)
	near("two", third.rate["two"], 10)
	top.now, top.server = noon, all[1]
	got := drawn(top.summary(200), false)
	for _, want := range []string{"SERVERS", "c:1 away since 12:00:00", "SERVER ", "planes 5 awake, 5 asleep"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	report := top.report().(map[string]any)["planeServers"].([]map[string]any)
	if len(report) != 3 || report[0]["passed"] != int64(20) || report[2]["state"] != "Away" || report[2]["since"] == nil {
		t.Errorf("%+v", report)
	}
}

// TestTopRates measures how fast events come, of watches of several objects and of one.
func TestTopRates(t *testing.T) {
	watches := func(events ...int64) (out []v1alpha1.Watch) {
		for n, sent := range events {
			w := v1alpha1.Watch{Events: sent, Name: map[bool]string{true: "cart"}[n == 1]}
			w.ObjectMeta.Name = fmt.Sprintf("w%d", n+1)
			out = append(out, w)
		}
		return out
	}
	before := state{at: noon, watches: watches(10, 20)}
	before.rates(&state{})
	now := state{at: noon.Add(2 * time.Second), watches: watches(15, 20, 7)}
	now.rates(&before)
	if w1, w2, w3 := now.rate["w1"], now.rate["w2"], now.rate["w3"]; w1 != 2.5 || w2 != 0 || w3 != 0 {
		t.Errorf("%v", now.rate)
	}
}

// TestTopUsers names who a request was served as.
func TestTopUsers(t *testing.T) {
	for want, rec := range map[string]v1alpha1.Record{"alice": {User: "alice"}, "alice (by admin)": {User: "admin", Impersonated: "alice"}, "(nobody)": {}} {
		if got := servedAs(&rec); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
