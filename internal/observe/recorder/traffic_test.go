package recorder

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// find returns the statistics that a func chooses.
func find(t *testing.T, all []*v1alpha1.TrafficStat, by string, is func(s *v1alpha1.TrafficStat) bool) *v1alpha1.TrafficStat {
	t.Helper()
	for _, s := range all {
		if s.By == by && is(s) {
			return s
		}
	}
	t.Fatalf("no traffic by %s in %d rows", by, len(all))
	return nil
}

func TestTraffic(t *testing.T) {
	r, clk := newTest(64 << 20)
	clk.Step(time.Minute)
	const n = 600
	for i := range n {
		code := 200
		if i%10 == 0 {
			code = 500
		}
		serve(t, r, clk, "PUT", "/api/v1/namespaces/n/configmaps/a", "alice", code, func(ctx context.Context) {
			request.AddStep(ctx, request.Step{Kind: request.StepWebhook, Name: "c/w", Phase: "validate", Began: clk.Now(), Took: 40 * time.Millisecond, Result: request.StepAllowed})
			clk.Step(50 * time.Millisecond)
		})
	}
	all := r.Traffic()
	every := find(t, all, v1alpha1.ByAll, func(*v1alpha1.TrafficStat) bool { return true })
	if math.Abs(every.PerSecond-10) > 0.1 || math.Abs(every.FailedPerSecond-1) > 0.1 || every.P50.Duration != 50*time.Millisecond || every.Max.Duration != 50*time.Millisecond {
		t.Errorf("of all: %+v", every)
	}
	if math.Abs(every.WritesPerSecond-9) > 0.1 || math.Abs(every.UnchangedPerSecond-9) > 0.1 {
		t.Errorf("writes that change nothing: %+v", every)
	}
	hook := find(t, all, v1alpha1.ByResourceWebhook, func(s *v1alpha1.TrafficStat) bool { return s.Webhook == "c/w" && s.Resource == "configmaps" })
	if math.Abs(hook.PerSecond-10) > 0.1 || hook.Max.Duration != 40*time.Millisecond {
		t.Errorf("of the webhook: %+v", hook)
	}
	for _, c := range []struct {
		by string
		is func(s *v1alpha1.TrafficStat) bool
	}{
		{v1alpha1.ByVerb, func(s *v1alpha1.TrafficStat) bool { return s.Verb == "update" }},
		{v1alpha1.ByClient, func(s *v1alpha1.TrafficStat) bool { return s.Client == "alice/1.0" }},
		{v1alpha1.ByUser, func(s *v1alpha1.TrafficStat) bool { return s.User == "alice" }},
		{v1alpha1.ByClientResource, func(s *v1alpha1.TrafficStat) bool { return s.Client == "alice/1.0" && s.Resource == "configmaps" }},
	} {
		if s := find(t, all, c.by, c.is); math.Abs(s.PerSecond-10) > 0.1 {
			t.Errorf("%+v", s)
		}
	}
	clk.Step(2 * time.Minute)
	if all := r.Traffic(); len(all) != 0 {
		t.Errorf("after two minutes there are %d rows", len(all))
	}
	for i := range 5 * maxCounted {
		serve(t, r, clk, "PUT", "/api/v1/namespaces/n/configmaps/a", fmt.Sprint("user-", i), 200, nil)
	}
	rows := map[string]int{}
	for _, s := range r.Traffic() {
		rows[s.By]++
	}
	for by, n := range rows {
		if n > trafficRows {
			t.Errorf("%d rows by %s", n, by)
		}
	}
}

// TestStrangersOnDisk checks that a flood of requests without credentials leaves the files alone.
func TestStrangersOnDisk(t *testing.T) {
	disk, err := OpenDisk(DiskConfig{Dir: t.TempDir(), Size: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	r, clk := newTest(4 << 20)
	r.Disk = disk
	for range 1000 {
		serve(t, r, clk, "GET", "/api/v1/namespaces/n/configmaps/a", "", 401, nil)
	}
	serve(t, r, clk, "PUT", "/api/v1/namespaces/n/configmaps/a", "alice", 403, nil)
	if n := len(disk.queue); n != perSecond+1 || r.skipped.Load() != 1000-perSecond {
		t.Errorf("%d requests go to disk, %d were skipped", n, r.skipped.Load())
	}
}

// TestStatsOfWhatIsGone checks that a webhook that was deleted has no statistics.
func TestStatsOfWhatIsGone(t *testing.T) {
	r, clk := newTest(4 << 20)
	for _, name := range []string{"kept/w", "gone/w"} {
		serve(t, r, clk, "PUT", "/api/v1/namespaces/n/configmaps/a", "alice", 200, func(ctx context.Context) {
			request.AddStep(ctx, request.Step{Kind: request.StepWebhook, Name: name, Phase: "validate", Began: clk.Now(), Result: request.StepAllowed})
		})
	}
	res := r.webhookStats(Deps{Asked: func(_ context.Context, kind, name, phase string) bool {
		return kind == request.StepWebhook && name == "kept/w" && phase == "validate"
	}})
	if _, err := res.Get(t.Context(), "webhook.kept:w.validate"); err != nil {
		t.Error(err)
	}
	if all := r.Webhooks(); len(all) != 1 || all[0].Step != "kept/w" {
		t.Errorf("there are statistics of %v", all)
	}
}

// BenchmarkTraffic counts a full memory of requests of 2,000 users, each with a program of its own.
func BenchmarkTraffic(b *testing.B) {
	r, clk := newTest(24 << 20)
	r.Sample = 1
	clk.Step(time.Hour)
	for n := range 100_000 {
		clk.Step(500 * time.Microsecond)
		by := fmt.Sprintf("u%d", n%2000)
		rec := &v1alpha1.Record{Number: int64(n), Time: metav1.NewMicroTime(clk.Now()), Kept: v1alpha1.KeptSample, Weight: 1, Verb: "get", Resource: "pods", Namespace: "n", Name: by,
			User: by, UserAgent: by + "/1", Code: 200, Layers: []v1alpha1.Layer{{Name: "authentication"}, {Name: "authorization"}, {Name: "etcd"}}}
		r.rings[n%int(classes)].push(rec)
	}
	b.ReportAllocs()
	for b.Loop() {
		if len(r.Traffic()) == 0 {
			b.Fatal("nothing was counted")
		}
	}
}
