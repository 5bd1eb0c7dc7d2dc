package recorder

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newTest(memory int64) (*Recorder, *testingclock.FakeClock) {
	clk := testingclock.NewFakeClock(begin)
	return New(Config{Memory: memory, Clock: clk, Log: slog.New(slog.DiscardHandler)}), clk
}

// serve passes a request through the filter; do is what happens on its way.
func serve(t testing.TB, r *Recorder, clk *testingclock.FakeClock, method, path, by string, code int, do func(ctx context.Context)) {
	t.Helper()
	req := httptest.NewRequest(method, path, nil)
	req.Header.Set("User-Agent", by+"/1.0")
	i, err := request.NewInfo(req)
	if err != nil {
		t.Fatal(err)
	}
	ctx, _ := request.WithLatency(request.WithInfo(request.WithReceived(req.Context(), clk.Now()), i), clk)
	r.Filter(func(w http.ResponseWriter, req *http.Request) {
		request.Identify(req.Context(), &user.DefaultInfo{Name: by})
		if do != nil {
			do(req.Context())
		}
		w.WriteHeader(code)
	})(chainWriter(), req.WithContext(ctx))
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: "u"}, Data: data}
}

func wrote(r *Recorder, resource string, old, obj engine.Object) func(ctx context.Context) {
	return func(ctx context.Context) {
		Wrote(ctx, engine.Written{GVR: schema.GroupVersionResource{Version: "v1", Resource: resource}, Old: old, New: obj, Revision: 7})
	}
}

func TestKeeps(t *testing.T) {
	for name, c := range map[string]struct {
		method, path string
		code         int
		took         time.Duration
		kept         string
		slow         bool
	}{
		"write":      {"POST", "/api/v1/namespaces/n/pods", 201, 0, v1alpha1.KeptWrite, false},
		"refused":    {"GET", "/api/v1/namespaces/n/pods/p", 403, 0, v1alpha1.KeptRefused, false},
		"error":      {"GET", "/api/v1/namespaces/n/pods/p", 503, 0, v1alpha1.KeptError, false},
		"slow":       {"GET", "/api/v1/namespaces/n/pods/p", 200, time.Second, v1alpha1.KeptSlow, true},
		"slow exec":  {"POST", "/api/v1/namespaces/n/pods/p/exec", 101, time.Hour, v1alpha1.KeptWrite, false},
		"slow write": {"POST", "/api/v1/namespaces/n/pods", 201, time.Second, v1alpha1.KeptWrite, true},
		"slow error": {"POST", "/api/v1/namespaces/n/pods", 504, time.Minute, v1alpha1.KeptWrite, true},
		"sample":     {"GET", "/api/v1/namespaces/n/pods/p", 200, 0, v1alpha1.KeptSample, false},
		"missing":    {"GET", "/api/v1/namespaces/n/pods/p", 404, 0, v1alpha1.KeptSample, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, clk := newTest(1 << 20)
			serve(t, r, clk, c.method, c.path, "alice", c.code, func(context.Context) { clk.Step(c.took) })
			all := r.Records()
			if len(all) != 1 || all[0].Kept != c.kept || all[0].User != "alice" || all[0].Duration.Duration != c.took || int(all[0].Code) != c.code || all[0].Slow != c.slow {
				t.Errorf("kept %+v, want %+v", all, c)
			}
		})
	}
}

// TestSamplingStandsForAll checks that the weights of the sampled reads add up to about their number.
func TestSamplingStandsForAll(t *testing.T) {
	r, clk := newTest(64 << 20)
	const n = 100_000
	for range n {
		serve(t, r, clk, "GET", "/api/v1/namespaces/n/pods/p", "alice", 200, nil)
	}
	var sum int64
	all := r.Records()
	for _, rec := range all {
		sum += rec.Weight
	}
	if len(all) > n/50 || sum < n*8/10 || sum > n*12/10 {
		t.Errorf("%d requests are kept for %d of %d", len(all), sum, n)
	}
}

// TestFlood checks that distinct users, names and objects do not take more memory than the bound, that a flood of refusals
// leaves writes alone, and that the newest history of objects outlives both.
func TestFlood(t *testing.T) {
	const memory = 2 << 20
	r, clk := newTest(memory)
	serve(t, r, clk, "PUT", "/api/v1/namespaces/n/configmaps/mine", "alice", 200, wrote(r, "configmaps", configMap("mine", nil), configMap("mine", map[string]string{"a": "b"})))
	long := strings.Repeat("x", 10_000)
	for n := range 50_000 {
		serve(t, r, clk, "PUT", fmt.Sprintf("/api/v1/namespaces/n/configmaps/%d-%s", n, long[:200]), fmt.Sprint(n, long[:300]), 403, nil)
		if n%100 == 0 {
			total := r.history.size()
			for c := range r.rings {
				total += r.rings[c].size()
			}
			if total > memory {
				t.Fatalf("%d bytes after %d requests, the bound is %d", total, n, memory)
			}
		}
	}
	found := false
	for _, rec := range r.Records() {
		found = found || rec.Name == "mine"
		if len(rec.User) > maxUser || len(rec.Name) > maxName || len(rec.UserAgent) > maxAgent {
			t.Fatalf("unbounded: %+v", rec)
		}
	}
	if !found {
		t.Error("refusals have pushed a write out")
	}
}

func TestHistoryOutlives(t *testing.T) {
	h := newHistory(shards * 100_000)
	ref := func(n int) v1alpha1.ObjectReference {
		return v1alpha1.ObjectReference{Resource: "pods", Namespace: "n", Name: fmt.Sprint("p", n)}
	}
	entry := func(by string, fields ...string) v1alpha1.HistoryEntry {
		e := v1alpha1.HistoryEntry{User: by, Verb: "update", Code: 200, Count: 1, Operation: "Updated"}
		for _, f := range fields {
			e.Fields = append(e.Fields, v1alpha1.FieldChange{Path: f})
		}
		return e
	}
	for n := range 500 {
		h.add(ref(n), entry("a", "x"))
	}
	for n := range 20_000 { // two that fight over one object
		h.add(ref(0), entry(fmt.Sprint(n%2), "spec.replicas"))
	}
	for n := range 500 {
		s := h.shard(ref(n))
		if s.objects[ref(n)] == nil {
			t.Fatalf("the history of object %d is forgotten for that of another", n)
		}
	}
	r := &Recorder{history: h}
	entries, forgotten := r.History(ref(0))
	if len(entries) != maxEntries || forgotten == 0 || entries[0].User != "a" {
		t.Errorf("%d entries, %d forgotten, first by %q", len(entries), forgotten, entries[0].User)
	}
	for range 10 {
		h.add(ref(1), entry("b", "y"))
	}
	if entries, _ = r.History(ref(1)); len(entries) != 2 || entries[1].Count != 10 {
		t.Errorf("equal entries are not one: %+v", entries)
	}
}

// Whoever may do nothing cannot push out the history of what others did, neither by names of their own nor by one that is there.
func TestRefusalsPushNothingOut(t *testing.T) {
	h := newHistory(shards * 40_000)
	ref := func(name string) v1alpha1.ObjectReference {
		return v1alpha1.ObjectReference{Resource: "pods", Name: name}
	}
	write := v1alpha1.HistoryEntry{User: "a", Verb: "update", Code: 200, Count: 1, Operation: "Updated"}
	for n := range 20 {
		write.UID = fmt.Sprint(n) // so that they are several
		h.add(ref("mine"), write)
	}
	before := h.count()
	for n := range 20_000 {
		refused := v1alpha1.HistoryEntry{User: "mallory", UserAgent: fmt.Sprint(n), Verb: "delete", Count: 1, Code: []int32{403, 429}[n%2]}
		h.add(ref("mine"), refused)
		h.add(ref(fmt.Sprint("unknown-", n)), refused)
	}
	entries, _ := (&Recorder{history: h}).History(ref("mine"))
	changes := 0
	for n := range entries {
		if !isRefusal(&entries[n]) {
			changes++
		}
	}
	if changes != 20 || len(entries) != 20+maxRefused || h.count() != before {
		t.Errorf("%d changes of %d entries, %d objects", changes, len(entries), h.count())
	}
	// A refusal by a webhook is for who has the right.
	h.add(ref("new"), v1alpha1.HistoryEntry{Verb: "create", Code: 403, Steps: []v1alpha1.Step{{Result: "Refused"}}})
	if h.count() != before+1 {
		t.Error("a refused creation is not remembered")
	}
}

func TestPanicIsAnError(t *testing.T) {
	r, clk := newTest(1 << 20)
	func() {
		defer func() { _ = recover() }()
		serve(t, r, clk, "GET", "/api/v1/namespaces/n/pods/p", "alice", 200, func(context.Context) { panic("fault") })
	}()
	if all := r.Records(); len(all) != 1 || all[0].Kept != v1alpha1.KeptError || all[0].Code != 500 {
		t.Errorf("%+v", all)
	}
}

func TestFights(t *testing.T) {
	entry := func(by, agent, operation string, fields ...string) v1alpha1.HistoryEntry {
		e := v1alpha1.HistoryEntry{User: by, UserAgent: agent, Operation: operation}
		for _, f := range fields {
			e.Fields = append(e.Fields, v1alpha1.FieldChange{Path: f})
		}
		return e
	}
	entries := []v1alpha1.HistoryEntry{entry("a", "", "Created"), entry("a", "x/1", "Updated", "f", "g"), entry("a", "y/1", "Updated", "f"),
		entry("a", "x/1", "Updated", "f"), entry("a", "x/1", "Updated", "f")}
	if got := Fights(entries); len(got) != 0 {
		t.Errorf("two turns are a fight: %+v", got)
	}
	got := Fights(append(entries, entry("b", "x/1", "Updated", "f")))
	if len(got) != 1 || got[0].Path != "f" || got[0].Turns != 3 || strings.Join(got[0].Writers, ", ") != "a with x/1, a with y/1, b with x/1" {
		t.Errorf("%+v", got)
	}
}

func TestCompare(t *testing.T) {
	pod := func(change func(p *corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "1"}, ResourceVersion: "1"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "one"}, {Name: "b", Image: "two", Env: []corev1.EnvVar{{Name: "E", Value: "canary"}}}}}}
		change(p)
		return p
	}
	u := func(spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "K", "metadata": map[string]any{"name": "x"}, "spec": spec}}
	}
	for name, c := range map[string]struct {
		old, obj any
		secret   bool
		want     string
	}{
		"nothing":   {pod(func(*corev1.Pod) {}), pod(func(p *corev1.Pod) { p.ResourceVersion = "2"; p.ManagedFields = []metav1.ManagedFieldsEntry{{}} }), false, ""},
		"image":     {pod(func(*corev1.Pod) {}), pod(func(p *corev1.Pod) { p.Spec.Containers[1].Image = "three" }), false, `spec.containers[b].image "two" "three"`},
		"reordered": {pod(func(*corev1.Pod) {}), pod(func(p *corev1.Pod) { c := p.Spec.Containers; c[0], c[1] = c[1], c[0] }), false, ""},
		"label":     {pod(func(*corev1.Pod) {}), pod(func(p *corev1.Pod) { p.Labels["x.y/z"] = "2" }), false, `metadata.labels["x.y/z"]  "2"`},
		"env":       {pod(func(*corev1.Pod) {}), pod(func(p *corev1.Pod) { p.Spec.Containers[1].Env[0].Value = "canary2" }), true, `spec.containers[b].env[E].value hidden`},
		"secret":    {configMap("c", map[string]string{"a": "canary"}), configMap("c", map[string]string{"a": "canary2"}), true, `data.a hidden`},
		"long":      {configMap("c", nil), configMap("c", map[string]string{"a": strings.Repeat("canary", 100)}), false, `data.a  (600 bytes)`},
		"custom":    {u(map[string]any{"n": int64(1), "l": []any{int64(1)}}), u(map[string]any{"n": int64(2), "l": []any{int64(1), "x"}}), false, `spec.l[1]  "x"; spec.n 1 2`},
		"removed":   {u(map[string]any{"m": map[string]any{"a": "b"}}), u(nil), false, `spec.m {1 fields} `},
		"type":      {u(map[string]any{"m": "a"}), u(map[string]any{"m": int64(1)}), false, `spec.m "a" 1`},
		"bytes":     {&corev1.Secret{Data: map[string][]byte{"a": []byte("x")}}, &corev1.Secret{Data: map[string][]byte{"a": []byte("canary")}}, false, `data.a (1 bytes) (6 bytes)`},
		"escapes":   {configMap("c", map[string]string{"a": "x"}), configMap("c", map[string]string{"a": "\x1b[31m"}), false, `data.a "x" "\u001b[31m"`},
	} {
		t.Run(name, func(t *testing.T) {
			fields, more := compare(c.old, c.obj, c.secret)
			var got []string
			for _, f := range fields {
				if f.Hidden {
					got = append(got, f.Path+" hidden")
				} else {
					got = append(got, f.Path+" "+f.Old+" "+f.New)
				}
			}
			if s := strings.Join(got, "; "); s != c.want || more != 0 {
				t.Errorf("got %s (%d more), want %s", s, more, c.want)
			}
			if b, _ := json.Marshal(fields); bytes.Contains(b, []byte("canary")) {
				t.Errorf("tells a secret: %s", b)
			}
		})
	}
}

func TestCompareIsBounded(t *testing.T) {
	many := map[string]string{}
	for n := range 1000 {
		many[fmt.Sprint(n)] = "x"
	}
	fields, more := compare(configMap("c", map[string]string{"y": "z"}), configMap("c", many), false)
	if len(fields) != maxFields || len(fields)+more != 1001 {
		t.Errorf("%d fields and %d more", len(fields), more)
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{"plain": "plain", "\x1b[31mred": "?[31mred", "a\nb": "a?b", "\xff": "?", "kö": "kö", strings.Repeat("é", 100): strings.Repeat("é", 8) + "…"} {
		if got := text(in, 20); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}

func TestWatches(t *testing.T) {
	r, clk := newTest(1 << 20)
	serve(t, r, clk, "GET", "/api/v1/pods?watch=1&labelSelector=a%3Db", "alice", 200, func(ctx context.Context) {
		p := request.Watch(ctx)
		p.Began(clk)
		p.Ended(3, 100, 42)
		p.Began(clk)
		clk.Step(5 * time.Second)
		all := r.Watches()
		if len(all) != 1 || all[0].User != "alice" || all[0].LabelSelector != "a=b" || all[0].Events != 3 || all[0].Bytes != 100 || all[0].Revision != 42 || all[0].Lag.Duration != 5*time.Second {
			t.Errorf("%+v", all)
		}
	})
	if all := r.Watches(); len(all) != 0 {
		t.Errorf("%+v after it has ended", all)
	}
}

func TestWebhooks(t *testing.T) {
	r, clk := newTest(1 << 20)
	for n := range 100 {
		serve(t, r, clk, "POST", "/api/v1/namespaces/n/pods", "alice", 201, func(ctx context.Context) {
			s := request.Step{Kind: request.StepWebhook, Name: "conf/hook", Phase: "admit", Began: clk.Now(), Took: 10 * time.Millisecond, Result: request.StepAllowed}
			if n == 99 {
				s.Took, s.Result, s.Ignored = 3*time.Second, request.StepTimedOut, true
			}
			request.AddStep(ctx, s)
		})
	}
	all := r.Webhooks()
	if len(all) != 1 {
		t.Fatal(all)
	}
	s := all[0]
	if s.Calls != 100 || s.TimedOut != 1 || s.Failed != 1 || s.Ignored != 1 || s.Max.Duration != 3*time.Second || s.PerMinute != 100 ||
		s.P50.Duration < 10*time.Millisecond || s.P50.Duration > 20*time.Millisecond || s.P99.Duration != 3*time.Second {
		t.Errorf("%+v", s)
	}
}

func TestDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "flight")
	open := func() (*Recorder, *testingclock.FakeClock, func()) {
		d, err := OpenDisk(DiskConfig{Dir: dir, Size: 16 << 20, Age: time.Hour, Clock: testingclock.NewFakeClock(begin), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		clk := testingclock.NewFakeClock(begin)
		r := New(Config{Memory: 1 << 20, Disk: d, Clock: clk, Log: slog.New(slog.DiscardHandler)})
		if err := r.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = d.Run(ctx) }()
		return r, clk, func() { cancel(); <-done }
	}
	r, clk, end := open()
	serve(t, r, clk, "PUT", "/api/v1/namespaces/n/configmaps/c", "alice", 200, wrote(r, "configmaps", configMap("c", nil), configMap("c", map[string]string{"a": "b"})))
	end()
	info, err := os.Stat(filepath.Join(dir, diskFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	f, _ := os.OpenFile(filepath.Join(dir, diskFile), os.O_APPEND|os.O_WRONLY, 0)
	_, _ = f.WriteString(`{"verb":"upd`) // killed while it wrote
	f.Close()
	r, _, end = open()
	defer end()
	entries, _ := r.History(v1alpha1.ObjectReference{Resource: "configmaps", Namespace: "n", Name: "c"})
	if len(r.Records()) != 1 || len(entries) != 1 || entries[0].User != "alice" || len(entries[0].Fields) != 1 {
		t.Errorf("after a restart: %+v, %+v", r.Records(), entries)
	}
}

// TestDiskHasNoValues changes objects of several kinds, and looks for their values in the files, and in what is loaded from
// a file that has some.
func TestDiskHasNoValues(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDisk(DiskConfig{Dir: dir, Size: 16 << 20, Age: time.Hour, Clock: testingclock.NewFakeClock(begin), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	clk := testingclock.NewFakeClock(begin)
	r := New(Config{Memory: 1 << 20, Disk: d, Clock: clk, Log: slog.New(slog.DiscardHandler)})
	custom := func(v string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "c", "namespace": "n"}, "spec": map[string]any{"password": v, "plain": v, "list": []any{v}}}}
	}
	serve(t, r, clk, "PUT", "/api/v1/namespaces/n/configmaps/c", "alice", 200, wrote(r, "configmaps", configMap("c", map[string]string{"pwd": "canary"}), configMap("c", map[string]string{"pwd": "canary2", "a": "canary"})))
	serve(t, r, clk, "PUT", "/apis/example.com/v1/namespaces/n/widgets/c", "alice", 200, wrote(r, "widgets", custom("canary"), custom("canary2")))
	ref := v1alpha1.ObjectReference{Resource: "configmaps", Namespace: "n", Name: "c"}
	if entries, _ := r.History(ref); len(entries) != 1 || !strings.Contains(fmt.Sprint(entries[0].Fields), "canary") {
		t.Errorf("in memory are %+v", entries)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Run(ctx); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, diskFile))
	if err != nil || !bytes.Contains(text, []byte("data.pwd")) || bytes.Contains(text, []byte("canary")) {
		t.Errorf("the file has %s, %v", text, err)
	}
	text = bytes.ReplaceAll(text, []byte(`"hidden":true`), []byte(`"old":"canary","new":"canary2"`))
	if err := os.WriteFile(filepath.Join(dir, diskFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err = OpenDisk(DiskConfig{Dir: dir, Size: 16 << 20, Age: time.Hour, Clock: testingclock.NewFakeClock(begin), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r = New(Config{Memory: 1 << 20, Disk: d, Clock: clk, Log: slog.New(slog.DiscardHandler)})
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, _ := r.History(ref)
	kept, err := json.Marshal(r.Records())
	if len(entries) != 1 || strings.Contains(fmt.Sprint(entries), "canary") || bytes.Contains(kept, []byte("canary")) || err != nil {
		t.Errorf("from the file of an earlier version come %+v %s", entries, kept)
	}
}

// TestToldPaths checks that a reader who may not get an object learns no key and no item of it from paths.
func TestToldPaths(t *testing.T) {
	u := func(name, v string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"list": []any{map[string]any{"name": name, "v": v}}, "m": map[string]any{"a.b[" + name: v, `q"` + name: v}}}}
	}
	for _, name := range []string{"canary", "a].canary", `"canary`, "a.canary", "[canary"} {
		fields, _ := compare(u(name, "1"), u(name, "2"), false)
		if len(fields) != 3 {
			t.Fatalf("%+v", fields)
		}
		rec := &v1alpha1.Record{Resource: "widgets", Name: "w", Fields: []string{"data[" + name + "]"}, Changes: []v1alpha1.Change{{Resource: "widgets", Name: "w", Fields: fields}}}
		shown := told(rec, anybody())
		if said := fmt.Sprintf("%+v", shown); strings.Contains(said, "canary") || !strings.Contains(said, "spec.list") {
			t.Errorf("%q: %s", name, said)
		}
		shown = told(rec, reader{may: func(v1alpha1.ObjectReference) bool { return true }})
		if said := fmt.Sprintf("%+v", shown); !strings.Contains(said, "canary") || !strings.Contains(said, "New:\"2\"") {
			t.Errorf("%q: who may get it is told %s", name, said)
		}
	}
}

// TestNotKeptAllocatesNothing checks what a read costs that is not kept.
func TestNotKeptAllocatesNothing(t *testing.T) {
	r, run := unkept(t)
	before := len(r.Records())
	if n := testing.AllocsPerRun(1000, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if len(r.Records()) != before {
		t.Error("they were kept")
	}
}

func BenchmarkNotKept(b *testing.B) {
	_, run := unkept(b)
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}

func BenchmarkKept(b *testing.B) {
	r, clk := newTest(16 << 20)
	run := passing(b, r, clk, "PUT")
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}

// unkept returns a func that passes a read through the filter of a recorder that samples none.
func unkept(t testing.TB) (*Recorder, func()) {
	r, clk := newTest(1 << 20)
	r.Sample = 1 << 40
	run := passing(t, r, clk, "GET")
	for range 1000 {
		run()
	}
	return r, run
}

func passing(t testing.TB, r *Recorder, clk *testingclock.FakeClock, method string) func() {
	t.Helper()
	req := httptest.NewRequest(method, "/api/v1/namespaces/n/pods/p", nil)
	i, err := request.NewInfo(req)
	if err != nil {
		t.Fatal(err)
	}
	ctx, _ := request.WithLatency(request.WithInfo(request.WithReceived(req.Context(), clk.Now()), i), clk)
	req = req.WithContext(ctx)
	h := r.Filter(func(http.ResponseWriter, *http.Request) {})
	w := chainWriter()
	return func() { h(w, req) }
}

// TestRefusedCreateIsRemembered refuses the creation of a Service, which gives back the address that it had taken: that is a
// change, but not one of the Service.
func TestRefusedCreateIsRemembered(t *testing.T) {
	r, clk := newTest(16 << 20)
	serve(t, r, clk, "POST", "/api/v1/namespaces/n/services", "alice", 500, func(ctx context.Context) {
		request.SetObject(ctx, "n", "s", false)
		request.AddStep(ctx, request.Step{Kind: request.StepWebhook, Name: "c/w", Phase: "validate", Began: clk.Now(), Result: request.StepFailed, Reason: "ConnectionRefused"})
		request.AddChange(ctx, request.Change{Operation: request.ChangeDeleted, Group: "networking.k8s.io", Resource: "ipaddresses", Name: "10.0.0.9"})
	})
	entries, _ := r.History(v1alpha1.ObjectReference{Resource: "services", Namespace: "n", Name: "s"})
	if len(entries) != 1 || entries[0].Code != 500 || len(entries[0].Steps) != 1 || entries[0].Steps[0].Reason != "ConnectionRefused" {
		t.Errorf("%+v", entries)
	}
}

// TestSlowWebhookIsInHistory writes an object through a webhook that takes long, and one that does not.
func TestSlowWebhookIsInHistory(t *testing.T) {
	r, clk := newTest(16 << 20)
	serve(t, r, clk, "POST", "/api/v1/namespaces/n/configmaps", "alice", 201, func(ctx context.Context) {
		request.AddStep(ctx, request.Step{Kind: request.StepWebhook, Name: "slow/w", Took: time.Second, Result: request.StepAllowed})
		request.AddStep(ctx, request.Step{Kind: request.StepWebhook, Name: "quick/w", Took: time.Millisecond, Result: request.StepAllowed})
		wrote(r, "configmaps", nil, configMap("a", nil))(ctx)
	})
	entries, _ := r.History(v1alpha1.ObjectReference{Resource: "configmaps", Namespace: "n", Name: "a"})
	if len(entries) != 1 || len(entries[0].Steps) != 1 || entries[0].Steps[0].Name != "slow/w" {
		t.Errorf("%+v", entries)
	}
}

// TestLoadMeanwhile has requests served while what was kept before is read: it comes before them.
func TestLoadMeanwhile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "flight")
	writes := func(r *Recorder, clk *testingclock.FakeClock, user string, n int) {
		for range n {
			clk.Step(time.Millisecond)
			serve(t, r, clk, "PUT", "/api/v1/namespaces/n/configmaps/c", user, 200, wrote(r, "configmaps", configMap("c", nil), configMap("c", map[string]string{"a": "b"})))
		}
	}
	open := func() (*Recorder, *testingclock.FakeClock, func()) {
		d, err := OpenDisk(DiskConfig{Dir: dir, Size: 16 << 20, Clock: testingclock.NewFakeClock(begin), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		clk := testingclock.NewFakeClock(begin)
		r := New(Config{Memory: 4 << 20, Disk: d, Clock: clk, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = d.Run(ctx) }()
		return r, clk, func() { cancel(); <-done }
	}
	r, clk, end := open()
	writes(r, clk, "alice", 3)
	end()
	r, clk, end = open()
	clk.Step(time.Hour)
	var c Cursor
	writes(r, clk, "bob", 2)
	if n := len(r.Since(&c)); n != 2 {
		t.Errorf("%d records before", n)
	}
	end() // what bob did is on the disk, too
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, _ := r.History(v1alpha1.ObjectReference{Resource: "configmaps", Namespace: "n", Name: "c"})
	if len(entries) != 2 || entries[0].User != "alice" || entries[0].Count != 3 || entries[1].User != "bob" || entries[1].Count != 2 {
		t.Errorf("%+v", entries)
	}
	if n := len(r.Records()); n != 5 {
		t.Errorf("%d records", n)
	}
	writes(r, clk, "carol", 1)
	if all := r.Since(&c); len(all) != 1 || all[0].User != "carol" {
		t.Errorf("a reader that goes on is told %+v", all)
	}
}

// BenchmarkDisk writes the record of a typical write.
func BenchmarkDisk(b *testing.B) {
	d, err := OpenDisk(DiskConfig{Dir: b.TempDir(), Size: 64 << 20, Clock: testingclock.NewFakeClock(begin), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	clk := testingclock.NewFakeClock(begin)
	r := New(Config{Memory: 4 << 20, Clock: clk, Log: slog.New(slog.DiscardHandler)})
	serve(b, r, clk, "PUT", "/api/v1/namespaces/n/configmaps/c", "alice", 200, wrote(r, "configmaps", configMap("c", nil), configMap("c", map[string]string{"a": "b"})))
	rec := r.Records()[0]
	var lines line
	b.ReportAllocs()
	for b.Loop() {
		for range 30 { // as many as come in the time that records wait for others, at 600 writes a second
			d.queue <- rec
		}
		lines = d.put(lines, nil)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/30, "ns/record")
}
