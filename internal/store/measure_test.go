package store

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// polled is a database that counts what metrics ask of it.
type polled struct {
	DB
	counts, sizes atomic.Int64
}

func (p *polled) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	if r.CountOnly {
		p.counts.Add(1)
	}
	return p.DB.Range(ctx, r, yield)
}

func (p *polled) Size(ctx context.Context) (kv.Size, error) {
	p.sizes.Add(1)
	return p.DB.Size(ctx)
}

// TestPolls asks etcd for metrics as often as it is to be asked, and not at all if that is 0.
func TestPolls(t *testing.T) {
	for _, c := range []struct {
		polls         Polls
		counts, sizes int64 // after three scrapes within 50 seconds
		objects, size bool
	}{
		{Polls{time.Minute, 30 * time.Second}, 1, 2, true, true},
		{Polls{10 * time.Second, time.Hour}, 3, 1, true, true},
		{Polls{0, time.Second}, 0, 3, false, true},
		{Polls{time.Hour, 0}, 1, 0, true, false},
	} {
		clk := testclock.NewFakeClock(time.Now())
		db := &polled{DB: memory.New(clk)}
		s := NewCluster(db, Options{Prefix: "/registry/", Clock: clk})
		s.View(Kind{Prefix: "pods/", Resource: schema.GroupResource{Resource: "pods"}})
		registry := prometheus.NewRegistry()
		registry.MustRegister(s.Collector(c.polls, func() {}))
		found := map[string]bool{}
		for range 3 {
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				found[f.GetName()] = true
			}
			clk.Step(25 * time.Second)
		}
		if n, m := db.counts.Load(), db.sizes.Load(); n != c.counts || m != c.sizes {
			t.Errorf("%+v: %d counts and %d sizes, want %d and %d", c.polls, n, m, c.counts, c.sizes)
		}
		if found["apiserver_resource_objects"] != c.objects || found["apiserver_storage_objects"] != c.objects || found["apiserver_storage_size_bytes"] != c.size {
			t.Errorf("%+v: %v", c.polls, found)
		}
	}
}
