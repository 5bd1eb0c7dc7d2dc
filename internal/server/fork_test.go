package server

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/engine/bundle"
)

func BenchmarkFork(b *testing.B) {
	s := start(b)
	p := &Plane{}
	p.serving.Store(s)
	b.ReportAllocs()
	for b.Loop() {
		f, err := p.Fork(b.Context(), ForkOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Start(context.Background()); err != nil {
			b.Fatal(err)
		}
		if err := f.Stop(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkForksAlive makes 1,000 forks of a server with 1,000 objects, and tells how much memory each takes: one that nobody has used yet, one that
// works, after a write, and one that sleeps again.
func BenchmarkForksAlive(b *testing.B) {
	const objects, forks = 1000, 1000
	s := start(b)
	for n := range objects {
		do(b, s, http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":"m%d"},"data":{"k":%q}}`, n, strings.Repeat("x", 500)), http.StatusCreated)
	}
	p := &Plane{}
	p.serving.Store(s)
	for b.Loop() {
		all := make([]*Fork, forks)
		made := grown(func() {
			for n := range all {
				var err error
				if all[n], err = p.Fork(b.Context(), ForkOptions{ForkOptions: bundle.ForkOptions{Rehearsal: true}}); err != nil {
					b.Fatal(err)
				}
			}
		})
		awake := grown(func() {
			for n, f := range all {
				if err := f.Start(context.Background()); err != nil {
					b.Fatal(err)
				}
				r, err := http.NewRequestWithContext(b.Context(), http.MethodPatch, "http://kanzen/api/v1/namespaces/default/configmaps/m1?fieldManager=m", strings.NewReader(fmt.Sprintf(`{"data":{"n":"%d"}}`, n)))
				if err != nil {
					b.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/merge-patch+json")
				resp, err := f.Transport(masters).RoundTrip(r)
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp, err)
				}
				_ = resp.Body.Close()
			}
		})
		asleep := awake + grown(func() {
			for _, f := range all {
				if err := f.Stop(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.ReportMetric(float64(made)/forks/1024, "unused-KB/fork")
		b.ReportMetric(float64(made+awake)/forks/1024, "awake-KB/fork")
		b.ReportMetric(float64(made+asleep)/forks/1024, "asleep-KB/fork")
		runtime.KeepAlive(all)
	}
}

// grown is by how much the memory has grown that a process cannot give back, after a func.
func grown(f func()) int64 {
	used := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	before := used()
	f()
	return used() - before
}
