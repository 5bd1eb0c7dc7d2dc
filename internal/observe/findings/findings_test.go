package findings

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/space"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/chain/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// none has no objects.
type none struct{}

var errNone = errors.New("there are no objects")

func (none) Endpoint(schema.GroupResource) (*engine.Endpoint, error) { return nil, errNone }
func (none) Seen(context.Context, schema.GroupResource, string, string) (engine.Object, error) {
	return nil, errNone
}
func (none) SeenList(context.Context, schema.GroupResource, string) ([]engine.Object, error) {
	return nil, errNone
}

// desk is an engine with a clock, and a server that can be made to suffer.
type desk struct {
	*Engine
	clock     *testingclock.FakeClock
	database  v1alpha1.Datastore
	disk      space.Disk
	levels    []flowcontrol.LevelState
	snapshots Snapshots
	faulty    []Certificate
	notReady  error
	panics    bool
}

func newDesk() *desk {
	d := &desk{clock: testingclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), disk: space.Disk{Free: 1 << 40}}
	d.database.Name = "etcd-0"
	log := slog.New(slog.DiscardHandler)
	d.Engine = New(Config{
		Recorder: recorder.New(recorder.Config{Memory: 16 << 20, Clock: d.clock, Log: log}), Objects: none{},
		Parts: recorder.Parts{Views: func() []*v1alpha1.View { return nil }, Datastores: func(context.Context) []*v1alpha1.Datastore { return []*v1alpha1.Datastore{&d.database} }},
		Levels: func() []flowcontrol.LevelState {
			if d.panics {
				panic("a fault")
			}
			return d.levels
		},
		NotReady: func(context.Context) error { return d.notReady }, Certificates: func() []Certificate { return d.faulty }, Snapshots: func() Snapshots { return d.snapshots },
		Directories: map[string]string{"data directory": "/data"}, Disk: func(string) (space.Disk, error) { return d.disk, nil },
		Report: func(context.Context, *v1alpha1.Finding) {}, Clock: d.clock, Guard: guard.New(log, d.clock, func() {}),
	})
	return d
}

func anything(v1alpha1.ObjectReference) bool { return true }

// found looks after a time.
func (d *desk) found(after time.Duration) []*v1alpha1.Finding {
	d.clock.Step(after)
	return d.Findings(context.Background(), anything)
}

// one returns the finding of a check; nil: there is none.
func one(all []*v1alpha1.Finding, check string) *v1alpha1.Finding {
	for _, f := range all {
		if f.Check == check {
			return f
		}
	}
	return nil
}

// TestParts has parts of the server in trouble, and well again.
func TestParts(t *testing.T) {
	for name, c := range map[string]struct {
		check, severity, says string
		trouble, repair       func(d *desk)
	}{
		"full disk":     {"DiskFull", "Error", "5 MiB are free", func(d *desk) { d.disk.Free = 5 << 20 }, func(d *desk) { d.disk.Free = 1 << 40 }},
		"filling disk":  {"DiskFull", "Warning", "300 MiB are free", func(d *desk) { d.disk.Free = 300 << 20 }, func(d *desk) { d.disk.Free = 1 << 40 }},
		"quota":         {"DatastoreFull", "Warning", "85% of its quota", func(d *desk) { d.database.Bytes, d.database.Quota = 85<<20, 100<<20 }, func(d *desk) { d.database.Bytes = 1 }},
		"full database": {"DatastoreFull", "Error", "100% of its quota", func(d *desk) { d.database.Bytes, d.database.Quota = 100<<20, 100<<20 }, func(d *desk) { d.database.Bytes = 1 }},
		"no database":   {"DatastoreAway", "Error", "etcd-0 does not answer", func(d *desk) { d.database.Error = "refused" }, func(d *desk) { d.database.Error = "" }},
		"not ready":     {"NotReady", "Error", "not ready", func(d *desk) { d.notReady = errors.New("kms: away\nagain") }, func(d *desk) { d.notReady = nil }},
		"certificate": {"CertificateExpiring", "Warning", "--tls-cert-file of CN=a: expires soon",
			func(d *desk) {
				d.faulty = []Certificate{{Flag: "--tls-cert-file", Subject: "CN=a", Fault: "expires soon", Expiring: true}}
			}, func(d *desk) { d.faulty = nil }},
		"failing snapshots": {"SnapshotFailing", "Error", "none is known",
			func(d *desk) { d.snapshots = Snapshots{Failed: d.clock.Now(), Error: "no bucket"} }, func(d *desk) { d.snapshots = Snapshots{} }},
		"keyless snapshots": {"SnapshotKeyless", "Warning", "the last one is of 2026-01-0",
			func(d *desk) {
				d.snapshots = Snapshots{Last: d.clock.Now(), Keyless: d.clock.Now(), KeysError: "passphrase: no such\nfile"}
			}, func(d *desk) { d.snapshots = Snapshots{} }},
		"late snapshots": {"SnapshotOld", "Warning", "the last one is of 2026-01-0",
			func(d *desk) {
				d.snapshots = Snapshots{Due: d.clock.Now().Add(-2 * time.Hour), Last: d.clock.Now().Add(-24 * time.Hour)}
			},
			func(d *desk) { d.snapshots.Last = d.clock.Now() }},
		"crowded level": {"SeatsTaken", "Warning", "workload-low",
			func(d *desk) {
				d.levels = []flowcontrol.LevelState{{Name: "workload-low", Seats: 10, SeatsInUse: 10, Waiting: 9, Users: []flowcontrol.UserSeats{{User: "greedy", Seats: 9, Waiting: 5}, {User: "modest", Waiting: 1}}}}
			}, func(d *desk) { d.levels = nil; d.clock.Step(every) }},
		"refusing level": {"SeatsTaken", "Warning", "workload-low",
			func(d *desk) { d.levels = []flowcontrol.LevelState{{Name: "workload-low", Rejected: 7}} }, func(d *desk) { d.clock.Step(span) }},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk()
			if all := d.found(0); len(all) != 0 {
				t.Fatalf("of a healthy server: %+v", all)
			}
			d.clock.Step(span)
			c.trouble(d)
			d.found(0)
			f := one(d.found(every), c.check)
			if f == nil || f.Severity != c.severity || !strings.Contains(f.Summary, c.says) || f.Impact == "" && f.Check != "CertificateExpiring" || len(f.Commands) == 0 || f.Since.IsZero() {
				t.Fatalf("%+v", f)
			}
			if strings.Contains(f.Cause, "\n") {
				t.Errorf("%q", f.Cause)
			}
			if n := testutil.CollectAndCount(d, "kanzen_findings"); n != 1 {
				t.Errorf("%d series", n)
			}
			c.repair(d)
			if f := one(d.found(span), c.check); f != nil {
				t.Errorf("repaired: %+v", f)
			}
		})
	}
}

// TestSince checks that a finding keeps its name and its beginning while it lasts, also if it was away for a moment.
func TestSince(t *testing.T) {
	d := newDesk()
	d.disk.Free = 0
	first := d.found(0)[0]
	if reports := d.reports(); len(reports) != 1 || len(d.reports()) != 0 {
		t.Errorf("reported: %+v", reports)
	}
	d.disk.Free = 1 << 40
	if all := d.found(every); len(all) != 0 {
		t.Fatal(all)
	}
	d.disk.Free = 0
	again := d.found(every)[0]
	if again.Name != first.Name || !again.Since.Equal(&first.Since) || len(d.reports()) != 0 {
		t.Errorf("%+v, then %+v", first, again)
	}
	d.disk.Free = 1 << 40
	d.found(every)
	d.found(forgetAfter + every)
	d.disk.Free = 0
	if later := d.found(every)[0]; !later.Since.After(first.Since.Time) || len(d.reports()) != 1 {
		t.Errorf("forgotten: %+v", later)
	}
}

// TestOneCheckFails checks that a check that panics takes nothing from the others.
func TestOneCheckFails(t *testing.T) {
	d := newDesk()
	d.panics, d.disk.Free = true, 0
	if f := one(d.found(0), "DiskFull"); f == nil {
		t.Error("nothing was found")
	}
}

// TestNobodyWaitsForALook has a look wait for a database that does not answer: readers and metrics have what was found before.
func TestNobodyWaitsForALook(t *testing.T) {
	d := newDesk()
	asked, answer := make(chan struct{}), make(chan struct{})
	d.disk.Free = 0
	d.found(0)
	d.Parts.Datastores = func(context.Context) []*v1alpha1.Datastore {
		close(asked)
		<-answer
		return nil
	}
	d.clock.Step(sizedFor)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		d.Findings(context.Background(), anything)
	}()
	<-asked
	if f := one(d.Findings(context.Background(), anything), "DiskFull"); f == nil {
		t.Error("nothing is told during a look")
	}
	if n := testutil.CollectAndCount(d, "kanzen_findings"); n != 1 {
		t.Errorf("%d series", n)
	}
	close(answer)
	<-looked
}

// TestTold checks that nobody is told what he may not get.
func TestTold(t *testing.T) {
	secret := v1alpha1.ObjectReference{Resource: "secrets", Namespace: "n", Name: "s"}
	public := v1alpha1.ObjectReference{Resource: "namespaces", Name: "n"}
	may := func(o v1alpha1.ObjectReference) bool { return o == public }
	f := &finding{reads: []v1alpha1.ObjectReference{public}, facts: []told{{"anybody", nil}, {"hidden", &secret}}, advice: []told{{"hidden", &secret}, {"shown", &public}}}
	if out := f.shown(may); out == nil || !slices.Equal(out.Evidence, []string{"anybody"}) || !slices.Equal(out.Commands, []string{"shown"}) {
		t.Errorf("%+v", out)
	}
	f.reads = append(f.reads, secret)
	if out := f.shown(may); out != nil {
		t.Errorf("%+v", out)
	}
}

// sends passes a request through the recorder.
func (d *desk) sends(method, path, agent, by string, code int, do func(ctx context.Context)) {
	req := httptest.NewRequest(method, path, nil)
	req.Header.Set("User-Agent", agent)
	i, err := request.NewInfo(req)
	if err != nil {
		panic(err)
	}
	ctx, _ := request.WithLatency(request.WithInfo(request.WithReceived(req.Context(), d.clock.Now()), i), d.clock)
	d.Recorder.Filter(func(w http.ResponseWriter, req *http.Request) {
		if by != "" {
			request.Identify(req.Context(), &user.DefaultInfo{Name: by})
		}
		if do != nil {
			do(req.Context())
		}
		w.WriteHeader(code)
	})(d.writer(), req.WithContext(ctx))
}

// writer returns a response writer as filters of the chain get it: it knows the status.
func (d *desk) writer() (found http.ResponseWriter) {
	catch := func(chain.Handler) chain.Handler {
		return func(w http.ResponseWriter, _ *http.Request) { found = w }
	}
	chain.New(chain.Config{Handler: http.NotFoundHandler(), Authorizer: authz.AlwaysAllow{}, Recorder: catch, Log: slog.New(slog.DiscardHandler), Clock: d.clock}).
		ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	return found
}

// changes is a write to a field of the config map n/a.
func (d *desk) changes(path string) func(ctx context.Context) {
	return func(ctx context.Context) {
		request.AddChange(ctx, request.Change{Operation: request.ChangeUpdated, Resource: "configmaps", Namespace: "n", Name: "a", Fields: []request.FieldChange{{Path: path}}})
	}
}

// TestWriters has writers of one object fight, follow each other, and write different fields.
func TestWriters(t *testing.T) {
	const path = "/api/v1/namespaces/n/configmaps/a"
	for name, c := range map[string]struct {
		writes func(d *desk)
		want   bool
	}{
		"fight": {func(d *desk) {
			for n := range 10 {
				d.sends("PUT", path, fmt.Sprintf("c%d/1", n%2), "alice", 200, d.changes("data.x"))
			}
		}, true},
		"one writer": {func(d *desk) {
			for range 100 {
				d.sends("PUT", path, "c/1", "alice", 200, d.changes("data.x"))
			}
		}, false},
		"different fields": {func(d *desk) {
			for n := range 100 {
				d.sends("PUT", path, fmt.Sprintf("c%d/1", n%2), "alice", 200, d.changes(fmt.Sprintf("data.x%d", n%2)))
			}
		}, false},
		"after other fields": {func(d *desk) {
			for n := range 3 * maxFields {
				d.sends("PUT", path, "c/1", "alice", 200, d.changes(fmt.Sprint("data.y", n)))
				d.found(span / maxFields)
			}
			for n := range 10 {
				d.sends("PUT", path, fmt.Sprintf("c%d/1", n%2), "alice", 200, d.changes("data.x"))
			}
		}, true},
		"slowly": {func(d *desk) {
			for n := range 10 {
				d.sends("PUT", path, fmt.Sprintf("c%d/1", n%2), "alice", 200, d.changes("data.x"))
				d.clock.Step(20 * time.Second)
				d.found(0)
			}
		}, false},
		"what requests for others change": {func(d *desk) {
			for n := range 100 {
				d.sends("POST", "/api/v1/namespaces/n/pods", fmt.Sprintf("c%d/1", n%2), "alice", 201, d.changes("status.used"))
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk()
			d.found(0)
			c.writes(d)
			f := one(d.found(every), "Fight")
			if (f != nil) != c.want {
				t.Fatalf("%+v", f)
			}
			if c.want && (!strings.Contains(f.Summary, "alice with c0/1 and alice with c1/1 fight over data.x of configmaps a in n") || f.Object.Name != "a") {
				t.Errorf("%+v", f)
			}
			if f := one(d.found(span+every), "Fight"); f != nil {
				t.Errorf("it lasts: %+v", f)
			}
		})
	}
}

// TestStrangers has clients fail to authenticate.
func TestStrangers(t *testing.T) {
	d := newDesk()
	for n := range 5 {
		reason := map[bool]string{true: "CertificateExpired", false: "TokenInvalid"}[n < 4]
		d.sends("GET", "/api/v1/pods", "agent/1", "", 401, func(ctx context.Context) {
			request.AddStep(ctx, request.Step{Kind: request.StepAuthentication, Name: "node-3", Result: request.StepFailed, Reason: reason})
		})
	}
	all := d.found(every)
	if len(all) != 1 || all[0].Check != "ClientUnknown" || !strings.Contains(all[0].Impact, "4 refused requests") || !strings.HasPrefix(all[0].Cause, "its client certificate has expired") || len(all[0].Requests) != maxRequests {
		t.Errorf("%+v", all)
	}
	if !strings.Contains(all[0].Summary, "calls itself node-3") {
		t.Errorf("what a stranger says is told as if it were known: %s", all[0].Summary)
	}
	if stats := d.Recorder.Webhooks(); len(stats) != 0 {
		t.Errorf("an authentication has statistics: %+v", stats[0])
	}
}

// TestManyStrangers has more clients fail than are told of: it tells of those that fail most, again and again of the same.
func TestManyStrangers(t *testing.T) {
	d := newDesk()
	fails := func(agent string, times int) {
		for range times {
			d.sends("GET", "/api/v1/pods", agent, "", 401, func(ctx context.Context) {
				request.AddStep(ctx, request.Step{Kind: request.StepAuthentication, Result: request.StepFailed, Reason: "TokenInvalid"})
			})
		}
	}
	for n := range 5 * mostOfCheck {
		fails(fmt.Sprintf("noise-%d", n), manyStrangers)
	}
	fails("worst", manyStrangers+1)
	names := func(all []*v1alpha1.Finding) (out []string) {
		for _, f := range all {
			out = append(out, f.Name)
		}
		return out
	}
	first := names(d.found(every))
	if len(first) != mostOfCheck || !slices.ContainsFunc(first, func(s string) bool { return strings.Contains(s, "worst") }) {
		t.Fatalf("%q", first)
	}
	if again := names(d.found(every)); !slices.Equal(again, first) {
		t.Errorf("%q, then %q", first, again)
	}
}

// TestLife has programs that ask from time to time: one is quiet for no longer than it always was, and strangers use its name.
func TestLife(t *testing.T) {
	d := newDesk()
	gets := func(agent, by string, code int) {
		d.sends("PUT", "/api/v1/namespaces/n/configmaps/a", agent, by, code, nil)
	}
	lives := func(after time.Duration, who string) bool {
		d.found(after)
		_, alive := (&look{Engine: d.Engine, time: d.clock.Now()}).life(who)
		return alive
	}
	if lives(0, "poller") {
		t.Error("nobody lives")
	}
	for range 3 {
		gets("poller/v1 (linux)", "alice", 200)
		if !lives(30*time.Second, "poller") && d.tally.seen["poller"].gap > 0 {
			t.Error("a poller is dead between two requests")
		}
	}
	if lives(90*time.Second, "poller") {
		t.Error("a poller lives on")
	}
	gets("poller/v1", "", 401)
	gets("poller/v1", user.Anonymous, 403)
	if lives(0, "poller") {
		t.Error("a stranger has revived it")
	}
}

// TestWeights counts reads that stand for others: a conversion that is slow once in a hundred times is not slow.
func TestWeights(t *testing.T) {
	d := newDesk()
	for weight, took := range map[int64]time.Duration{100: time.Millisecond, 1: 2 * time.Second} {
		d.tally.request(&v1alpha1.Record{Verb: "list", User: "alice", Weight: weight, Steps: []v1alpha1.Step{{Kind: request.StepConversion, Name: "a", Duration: metav1.Duration{Duration: took}, Result: request.StepAllowed}}}, d.clock.Now())
	}
	s, slot := d.tally.steps[stepKey{request.StepConversion, "a"}], slotOf(d.clock.Now())
	if calls, slow := s.calls.sum(slot), s.slow.sum(slot); calls != 101 || slow != 1 {
		t.Errorf("%v calls, %v slow", calls, slow)
	}
}

// TestBounds sends requests under ever new names.
func TestBounds(t *testing.T) {
	d := newDesk()
	for n := range 3 * maxCounted {
		d.sends("PATCH", fmt.Sprintf("/api/v1/namespaces/n/configmaps/a%d", n), fmt.Sprintf("agent-%d", n), fmt.Sprintf("user-%d", n), 200, func(ctx context.Context) {
			request.AddStep(ctx, request.Step{Kind: request.StepWebhook, Name: fmt.Sprint(n), Result: request.StepFailed})
			request.AddChange(ctx, request.Change{Operation: request.ChangeDeleting, Resource: "pods", Namespace: "n", Name: fmt.Sprint(n)})
		})
		if n%500 == 0 {
			d.found(fresh)
		}
	}
	d.found(fresh)
	y := &d.tally
	for name, n := range map[string]int{"steps": len(y.steps), "written": len(y.written), "idle": len(y.idle), "users": len(y.users), "seen": len(y.seen), "deleting": len(y.deleting)} {
		if n > maxCounted {
			t.Errorf("%s: %d", name, n)
		}
	}
	d.found(11 * span)
	if n := len(y.steps) + len(y.written) + len(y.idle) + len(y.users) + len(y.seen); n != 0 {
		t.Errorf("%d are not forgotten", n)
	}
}

func TestNames(t *testing.T) {
	seen := map[string]string{}
	for _, subject := range []string{"", "a", "a/b", "a:b", "A/b", "a b", "ä", strings.Repeat("x", 300), strings.Repeat("x", 301), "\x1b[2J", "system:node:x", "..", "/"} {
		name := nameOf("Check", subject)
		if other, ok := seen[name]; ok || len(name) > maxFindingName+9 || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c == '/' || c > '~' }) {
			t.Errorf("%q: %q, as %q", subject, name, other)
		}
		seen[name] = subject
	}
}

func TestSetter(t *testing.T) {
	m := &metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "keeper", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:finalizers":{".":{},"v:\"example.com/keep\"":{}}}}`)}}}
	if who, _ := Setter(m, "example.com/keep"); who != "keeper" {
		t.Errorf("%q", who)
	}
	if who, _ := Setter(m, "example.com/kee"); who != "" {
		t.Errorf("%q", who)
	}
}

func TestRemaining(t *testing.T) {
	got := remaining("Some resources are remaining: configmaps. has 1 resource instances, gadgets.example.com has 2 resource instances")
	if want := []schema.GroupResource{{Resource: "configmaps"}, {Group: "example.com", Resource: "gadgets"}}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// BenchmarkLook measures a look after five seconds of 3,000 requests a second, a third of them writes.
func BenchmarkLook(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		d := newDesk()
		d.found(0)
		for n := range 15000 {
			if n%3 == 0 {
				d.sends("PATCH", fmt.Sprintf("/api/v1/namespaces/n/configmaps/a%d", n%500), "agent/1", fmt.Sprintf("user-%d", n%50), 200, d.changes("data.x"))
			} else {
				d.sends("GET", "/api/v1/namespaces/n/configmaps/a", "agent/1", "user", 200, nil)
			}
		}
		b.StartTimer()
		d.found(fresh)
	}
}

// TestCredentials has clients authenticate with what ends soon.
func TestCredentials(t *testing.T) {
	d := newDesk()
	now := d.clock.Now()
	for agent, c := range map[string]request.Credential{
		"person/1":  {Kind: request.CredentialCertificate, From: now.Add(-300 * 24 * time.Hour), Until: now.Add(10 * 24 * time.Hour)},
		"script/1":  {Kind: request.CredentialToken, From: now.Add(-57 * time.Minute), Until: now.Add(3 * time.Minute)},
		"pod/1":     {Kind: request.CredentialToken, From: now.Add(-48 * time.Minute), Until: now.Add(12 * time.Minute)}, // renews at four fifths
		"kubelet/1": {Kind: request.CredentialCertificate, From: now.Add(-300 * 24 * time.Hour), Until: now.Add(65 * 24 * time.Hour)},
		"node/1":    {Kind: request.CredentialCertificate, From: now.Add(-22*time.Hour + 20*time.Minute), Until: now.Add(2*time.Hour + 20*time.Minute)}, // renews at nine tenths, and waits for the signature
		"brief/1":   {Kind: request.CredentialToken, From: now.Add(-590 * time.Second), Until: now.Add(10 * time.Second)},
		"legacy/1":  {Kind: request.CredentialToken},
	} {
		d.sends("GET", "/api/v1/namespaces/n/configmaps/a", agent, "alice", 200, func(ctx context.Context) { request.SetCredential(ctx, &c) })
	}
	all := d.found(0)
	if len(all) != 2 || all[0].Severity != "Warning" || !strings.Contains(all[0].Impact, "person/1 from") || all[0].Summary != "the certificate of alice expires in 10 days" ||
		all[1].Severity != "Info" || !strings.Contains(all[1].Impact, "script/1 from") || all[1].Summary != "the token of alice expires in 3m0s" {
		t.Errorf("%+v", all)
	}
	if all := d.found(usedAgain - time.Minute); len(all) != 1 || !strings.Contains(all[0].Impact, "person/1 from") {
		t.Errorf("the token is over: %+v", all)
	}
	if all := d.found(time.Minute + time.Second); len(all) != 0 {
		t.Errorf("nobody uses them any more: %+v", all)
	}
}

// TestCredentialOfWatch has a watch end shortly before the token does with which it began: its client has long had another one.
func TestCredentialOfWatch(t *testing.T) {
	d := newDesk()
	c := request.Credential{Kind: request.CredentialToken, From: d.clock.Now().Add(-20 * time.Minute), Until: d.clock.Now().Add(40 * time.Minute)}
	d.sends("GET", "/api/v1/pods?watch=true", "pod/1", "alice", 200, func(ctx context.Context) {
		request.SetCredential(ctx, &c)
		d.clock.Step(38 * time.Minute)
	})
	if f := one(d.found(0), "CredentialExpiring"); f != nil {
		t.Errorf("%+v", f)
	}
}

// TestServers compares servers.
func TestServers(t *testing.T) {
	d := newDesk()
	now := d.clock.Now()
	itself := Server{Name: "a", Host: "alpha", Settings: map[string]string{"version": "2", "feature-gates": "1", "new-flag": "x"}, Seen: now}
	gone := Server{Name: "b", Host: "before", Settings: map[string]string{"version": "1", "feature-gates": "2"}, Seen: now.Add(-time.Minute)}
	same := Server{Name: "c", Host: "gamma", Settings: itself.Settings, Seen: now.Add(time.Minute)}
	others := []Server{gone, same}
	d.Servers = func(context.Context) (Server, []Server) { return itself, others }
	if all := d.found(0); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	others = append(others, Server{Name: "d", Host: "delta", Settings: map[string]string{"version": "1", "feature-gates": "2"}, Seen: now.Add(time.Minute)})
	all := d.found(every)
	if len(all) != 2 || all[0].Severity != "Info" || all[1].Severity != "Info" || one(all, "ServersDiffer") == nil {
		t.Errorf("an upgrade: %+v", all)
	}
	if causes := []string{all[0].Cause, all[1].Cause}; !slices.Contains(causes, "they differ in --feature-gates") || !slices.Contains(causes, "delta is 1, alpha is 2") {
		t.Errorf("an upgrade: %q", causes)
	}
	for name, settings := range map[string]map[string]string{"other flags": {"version": "2", "feature-gates": "2"}, "no version": {"feature-gates": "2"}} {
		others[2].Settings = settings
		if all := d.found(every); len(all) != 1 || all[0].Cause != "they differ in --feature-gates" || all[0].Severity != "Warning" {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

// TestDefinitions has definitions that cost.
func TestDefinitions(t *testing.T) {
	d := newDesk()
	novels := &v1alpha1.Definition{Group: "example.com", Resource: "as", Objects: 900, Bytes: 100 << 20}
	novels.Name = "as.example.com"
	view := v1alpha1.View{Bytes: 300 << 20}
	d.Parts.Definitions = func() []*v1alpha1.Definition { return []*v1alpha1.Definition{novels} }
	d.Parts.Views = func() []*v1alpha1.View { return []*v1alpha1.View{&view} }
	if all := d.found(0); len(all) != 0 {
		t.Errorf("a third of what is in memory: %+v", all)
	}
	view.Bytes = 150 << 20
	if f := one(d.found(sizedFor), "DefinitionCostly"); f == nil || f.Impact != "100.0 MiB of memory, 66% of what all objects take" {
		t.Errorf("%+v", f)
	}
	novels.Bytes, novels.Checks, novels.CheckTime.Duration = 0, 19, time.Second
	if f := one(d.found(2*sizedFor), "DefinitionCostly"); f != nil {
		t.Errorf("the first checks compile expressions: %+v", f)
	}
	novels.Checks = 50
	if f := one(d.found(3*sizedFor), "DefinitionCostly"); f == nil || f.Impact != "each write of one waits 20ms for the check, and takes a processor for it" {
		t.Errorf("%+v", f)
	}
}
