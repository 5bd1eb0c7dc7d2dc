package recorder

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

func TestBuckets(t *testing.T) {
	for n := range buckets {
		limit := limitOf(n)
		if bucketOf(limit) != n || bucketOf(limit+1) != min(n+1, buckets-1) {
			t.Errorf("bucket %d ends at %v, which is in %d, and what follows in %d", n, limit, bucketOf(limit), bucketOf(limit+1))
		}
		if n > 0 && float64(limit)/float64(limitOf(n-1)) > 1.25 {
			t.Errorf("bucket %d is from %v to %v", n, limitOf(n-1), limit)
		}
	}
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, first} {
		if bucketOf(d) != 0 {
			t.Errorf("%v is in bucket %d", d, bucketOf(d))
		}
	}
	if bucketOf(math.MaxInt64) != buckets-1 {
		t.Error("there is no bucket for what takes very long")
	}
	if size := unsafe.Sizeof(Times[int64]{}); size > 1024 {
		t.Errorf("a series of int64 takes %d bytes", size)
	}
	if size := unsafe.Sizeof(Times[float32]{}); size > 512 {
		t.Errorf("a series of float32 takes %d bytes", size)
	}
}

// TestQuantiles compares those of many kinds of latencies with exact ones: they are never below, and a quarter above at most.
func TestQuantiles(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		var times Times[int64]
		var all []time.Duration
		from, to := r.Float64()*9, r.Float64()*11 // 1 ns to 100 s
		for range 1 + r.IntN(500) {
			d := time.Duration(math.Pow(10, from+(to-from)*r.Float64()))
			all = append(all, d)
			times.Add(d, 1)
		}
		slices.Sort(all)
		for _, q := range []float64{0, .5, .9, .99} {
			exact := all[min(int(q*float64(len(all))), len(all)-1)]
			got := times.Quantile(q)
			if got < exact || float64(got) > max(1.25*float64(exact), float64(min(first, all[len(all)-1]))) {
				t.Errorf("seed %d: the quantile %v of %d is %v, exactly %v", seed, q, len(all), got, exact)
			}
		}
		if times.Max() != all[len(all)-1] || times.Quantile(1) != times.Max() {
			t.Errorf("seed %d: the longest is %v, not %v", seed, times.Max(), all[len(all)-1])
		}
	}
}

// TestShortLatencies checks that what takes microseconds is shown so, and not as half a millisecond.
func TestShortLatencies(t *testing.T) {
	r, clk := newTest(1 << 20)
	for range 100 {
		serve(t, r, clk, "POST", "/api/v1/namespaces/n/pods", "alice", 201, func(ctx context.Context) {
			request.AddStep(ctx, request.Step{Kind: request.StepWebhook, Name: "conf/hook", Phase: "admit", Began: clk.Now(), Took: 20 * time.Microsecond, Result: request.StepAllowed})
			clk.Step(4 * time.Microsecond)
		})
	}
	if all := find(t, r.Traffic(), v1alpha1.ByAll, func(*v1alpha1.TrafficStat) bool { return true }); all.P50.Duration != 4*time.Microsecond || all.P99.Duration != 4*time.Microsecond {
		t.Errorf("requests take %v and %v", all.P50, all.P99)
	}
	if hook := r.Webhooks()[0]; hook.P50.Duration != 20*time.Microsecond || hook.P99.Duration != 20*time.Microsecond {
		t.Errorf("the webhook takes %v and %v", hook.P50, hook.P99)
	}
}
